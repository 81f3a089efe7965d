// Experts from the last to the first, two independent sums, double for float32 inputs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

__device__ float weighted(double a, float s) { return float(a * double(s)); }
__device__ float weighted(float a, float s) { return a * s; }
template <typename T, typename S>
__global__ void backwards(const T* in, T* out, int experts, int hidden, float scale) {
  const int64_t token = blockIdx.x;
  in += token * experts * hidden;
  for (int c = threadIdx.x; c < hidden; c += blockDim.x) {
    S odd = 0, even = 0;
    for (int e = experts - 1; e >= 0; --e) (e & 1 ? odd : even) += S(float(in[int64_t(e) * hidden + c]));
    out[token * hidden + c] = T(weighted(odd + even, scale));
  }
}
extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, int dtype, cudaStream_t stream) {
  const unsigned grid = unsigned(tokens), block = hidden >= 1024 ? 512 : 64;
  if (dtype == 0)
    backwards<float, double><<<grid, block, 0, stream>>>((const float*)input, (float*)output, int(experts), int(hidden), scale);
  else if (dtype == 1)
    backwards<__half, float><<<grid, block, 0, stream>>>((const __half*)input, (__half*)output, int(experts), int(hidden), scale);
  else
    backwards<__nv_bfloat16, float><<<grid, block, 0, stream>>>((const __nv_bfloat16*)input, (__nv_bfloat16*)output, int(experts), int(hidden), scale);
  return cudaGetLastError();
}
