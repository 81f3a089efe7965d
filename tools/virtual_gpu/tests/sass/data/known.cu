// Kernels whose machine code is known to do so much.
#include <cuda_runtime.h>

__global__ void each(float* out, const float* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = in[i] * 2.0f;
}

// ptxas unrolls it four times and has a rest of up to three turns.
__global__ void turns(float* out, const float* in, int n) {
  float x = in[threadIdx.x], a = in[1], b = in[2];
#pragma unroll 1
  for (int i = 0; i < 8; i++) x = x * 0.5f + 1.0f;
  for (int i = 0; i < n; i++) x = fmaf(x, a, b);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void quotients(float* out, const float* in, int n) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[threadIdx.x] / in[threadIdx.x + n];
}

__global__ void chase(float* out, const int* next, int n) {
  int at = threadIdx.x;
  for (int i = 0; i < n; i++) at = next[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

__global__ void four(float* out, const float* in, int n) {
  const float* p = in + threadIdx.x;
  out[blockIdx.x * blockDim.x + threadIdx.x] = p[0] + p[32] + p[64] + p[96];
}

__global__ void sums(float* out, const float* in, int n) {
  float x = in[threadIdx.x];
  if (threadIdx.x < 32)
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void uneven(float* out, const float* in, int n) {
  float x = in[threadIdx.x];
  for (int i = 0; i < n * (blockIdx.x % 3); i++) x = fmaf(x, x, 1.0f);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

#define LAUNCHER(kernel, type)                                                           \
  extern "C" int run_##kernel(float* out, const void* in, int n, int blocks, int threads) { \
    kernel<<<blocks, threads>>>(out, (const type*)in, n);                                \
    return cudaDeviceSynchronize();                                                      \
  }
LAUNCHER(each, float)
LAUNCHER(turns, float)
LAUNCHER(quotients, float)
LAUNCHER(chase, int)
LAUNCHER(four, float)
LAUNCHER(sums, float)
LAUNCHER(uneven, float)
