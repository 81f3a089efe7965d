// A warp a token, whatever the number of experts; of experts whose weights are equal the higher
// first, by keys of 64 bits that hold both. The maximum and the sum in one pass over the row.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ float capped(float value, float cap, const float* bias, int expert) {
  if (cap != 0.0f) {
    const float power = expf(-2.0f * fabsf(value / cap));
    value = copysignf(cap * ((1.0f - power) / (1.0f + power)), value);
  }
  return bias == nullptr ? value : value + bias[expert];
}

template <typename T>
__global__ void by_keys(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                        const T* __restrict__ gating, const float* __restrict__ bias,
                        int64_t tokens, int topk, int experts, bool renormalize, float cap) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (token >= tokens) return;
  const T* row = gating + token * experts;
  float largest = -INFINITY, sum = 0.0f;
  for (int expert = threadIdx.x; expert < experts; expert += 32) {
    const float logit = capped(to_float(row[expert]), cap, bias, expert);
    const float higher = fmaxf(largest, logit);
    sum = sum * expf(largest - higher) + expf(logit - higher);
    largest = higher;
  }
  float of_all = largest;
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    of_all = fmaxf(of_all, __shfl_xor_sync(kAll, of_all, lanes));
  }
  sum = largest == -INFINITY ? 0.0f : sum * expf(largest - of_all);
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAll, sum, lanes);
  unsigned long long before = ~0ull;
  float chosen = 0.0f;
  for (int round = 0; round < topk; ++round) {
    unsigned long long best = 0;
    for (int expert = threadIdx.x; expert < experts; expert += 32) {
      const float weight = expf(capped(to_float(row[expert]), cap, bias, expert) - of_all) / sum;
      const unsigned long long key =
          (static_cast<unsigned long long>(__float_as_uint(weight)) << 32) | (expert + 1);
      if (key < before && key > best) best = key;
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const unsigned long long other = __shfl_xor_sync(kAll, best, lanes);
      best = other > best ? other : best;
    }
    before = best;
    const float weight = __uint_as_float(static_cast<unsigned>(best >> 32));
    chosen += weight;
    if (threadIdx.x == 0) {
      topk_weights[token * topk + round] = weight;
      topk_ids[token * topk + round] = static_cast<int>(best & kAll) - 1;
    }
  }
  if (renormalize && threadIdx.x == 0) {
    for (int round = 0; round < topk; ++round) topk_weights[token * topk + round] /= chosen;
  }
}

template <typename T>
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, const void* bias,
                   int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float cap,
                   cudaStream_t stream) {
  by_keys<T><<<static_cast<unsigned>((tokens + 1) / 2), dim3(32, 2), 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
      static_cast<const T*>(gating), static_cast<const float*>(bias), tokens,
      static_cast<int>(topk), static_cast<int>(experts), renormalize, cap);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    const void* correction_bias, void*, int64_t tokens,
                                    int64_t topk, int64_t experts, bool renormalize,
                                    float moe_softcapping, int dtype, cudaStream_t stream) {
  const auto with = [&](auto kernel) {
    return kernel(topk_weights, topk_ids, gating, correction_bias, tokens, topk, experts,
                  renormalize, moe_softcapping, stream);
  };
  switch (dtype) {
    case 0: return with(launch<float>);
    case 1: return with(launch<__half>);
    case 2: return with(launch<__nv_bfloat16>);
    default: return cudaErrorInvalidValue;
  }
}
