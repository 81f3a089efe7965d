// What goes wrong is chosen by the argument.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void past_the_end(int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = i;
}

int main(int argc, char** argv) {
  const char what = argc > 1 ? argv[1][0] : 'k';
  int *device, value = 0;
  cudaMalloc(&device, 1000 * sizeof(int));
  std::printf("before\n");
  switch (what) {
    case 'w': device[3] = 1; break;
    case 'r': value = device[250]; break;
    case 'f': cudaFree(device); value = *device; break;
    case 'u': cudaFree(device); past_the_end<<<8, 128>>>(device, 999); break;
    case 'g': past_the_end<<<0, 128>>>(device, 10); return cudaGetLastError();
    case 'l': return 0;
    case 'a': std::abort();
    default: past_the_end<<<8, 128>>>(device, 1000);
  }
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("after: %s %d\n", cudaGetErrorString(error), value);
  cudaFree(device);
  return 0;
}
