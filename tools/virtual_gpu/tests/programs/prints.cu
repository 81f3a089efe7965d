// Kernels that print: every kind of argument, in the order of blocks and behind the host's own words.
#include <cstdio>
#include <cuda_runtime.h>

__device__ const char* const names[] = {"even", "odd"};

__global__ void speak(double x, const void* where) {
  if (threadIdx.x == 0) printf("block %d of %u: %s\n", blockIdx.x, gridDim.x, names[blockIdx.x % 2]);
  if (threadIdx.x < 2)
    printf("  thread %2d %-4s|%+.3f %e %5.1f%% %c %#x %lld %llu %p\n", threadIdx.x, "left", x, x / 3, 12.34, 'a' + threadIdx.x,
           255 + threadIdx.x, -5000000000ll, 18446744073709551615ull, where);
  if (threadIdx.x == 33) printf("%*d|%s|\n", 6, -42, "no argument behind %d");
}

int main() {
  std::printf("before\n");
  speak<<<2, 64>>>(1.5, (void*)0x1234);
  std::printf("after %d\n", cudaDeviceSynchronize());
}
