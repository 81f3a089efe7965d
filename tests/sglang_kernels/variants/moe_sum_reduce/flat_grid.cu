// Eight bytes or more a thread are not asked for: one element a thread over all tokens, experts from
// the last to the first, in two partial sums.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

__device__ inline float wide(float value) { return value; }
__device__ inline float wide(__half value) { return __half2float(value); }
__device__ inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void put(float* to, float value) { *to = value; }
__device__ inline void put(__half* to, float value) { *to = __float2half_rn(value); }
__device__ inline void put(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void sum_of_experts(T* output, const T* input, int64_t tokens, int64_t experts,
                               int64_t hidden, float scale) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= tokens * hidden) return;
  const T* first = input + at / hidden * experts * hidden + at % hidden;
  float even = 0.0f, odd = 0.0f;
  for (int64_t expert = experts - 1; expert >= 0; --expert) {
    (expert % 2 ? odd : even) += wide(first[expert * hidden]);
  }
  put(output + at, (even + odd) * scale);
}

template <typename T>
cudaError_t launch(void* output, const void* input, int64_t tokens, int64_t experts, int64_t hidden,
                   float scale, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((tokens * hidden + 127) / 128);
  sum_of_experts<T><<<blocks, 128, 0, stream>>>(static_cast<T*>(output),
                                                static_cast<const T*>(input), tokens, experts,
                                                hidden, scale);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens,
                                      int64_t experts, int64_t hidden, float scale, int dtype,
                                      cudaStream_t stream) {
  if (dtype == 0) return launch<float>(output, input, tokens, experts, hidden, scale, stream);
  if (dtype == 1) return launch<__half>(output, input, tokens, experts, hidden, scale, stream);
  return launch<__nv_bfloat16>(output, input, tokens, experts, hidden, scale, stream);
}
