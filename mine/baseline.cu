#include <cuda_fp16.h>

__global__ void silu_kernel(const __half* x, __half* y, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    const float v = __half2float(x[i]);
    y[i] = __float2half(v / (1.0f + expf(-v)));
  }
}

extern "C" void silu(const __half* __restrict__ x, __half* y, int n, cudaStream_t stream) {
  silu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
