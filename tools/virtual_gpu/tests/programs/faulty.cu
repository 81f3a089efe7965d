// Two kernels each do something wrong; a third one does not.
#include <cstdio>

namespace space {
__global__ void past_the_end(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = i;  // BUG beyond
}
}  // namespace space

__global__ void unwritten(const int* in, int* out) {
  out[threadIdx.x] = in[threadIdx.x];  // BUG uninitialized
}

__global__ void null(int* out) {
  *out = 1;  // BUG null
}

int main() {
  int *a, *b;
  cudaMalloc(&a, 128);
  cudaMalloc(&b, 128);
  unwritten<<<1, 32>>>(b, a);
  space::past_the_end<<<1, 64>>>(a, 32);
  null<<<1, 1>>>(nullptr);
  null<<<1, 1>>>(nullptr);
  cudaFree(a);
  cudaFree(b);
  std::puts("done");
}
