// Chooses by the logits in shared memory, a block a token, and computes the weights of the chosen
// ones afterwards.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 64;

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
__global__ void by_logits(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                          const T* __restrict__ gating, const float* __restrict__ bias, int topk,
                        int experts, bool renormalize, float cap) {
  __shared__ float logits[1024];
  __shared__ float best[kThreads];
  __shared__ int where[kThreads];
  const int64_t token = blockIdx.x;
  const int thread = threadIdx.x;
  for (int expert = thread; expert < experts; expert += kThreads) {
    logits[expert] = capped(to_float(gating[token * experts + expert]), cap, bias, expert);
  }
  __syncthreads();
  float largest = 0.0f, chosen = 0.0f;
  for (int round = 0; round < topk; ++round) {
    float own = -INFINITY;
    int expert = -1;
    for (int index = thread; index < experts; index += kThreads) {
      const float logit = logits[index];
      if (logit == logit && (expert < 0 || logit >= own)) {
        own = logit;
        expert = index;
      }
    }
    best[thread] = own;
    where[thread] = expert;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (thread < half && where[thread + half] >= 0 &&
          (where[thread] < 0 || best[thread + half] > best[thread])) {
        best[thread] = best[thread + half];
        where[thread] = where[thread + half];
      }
      __syncthreads();
    }
    if (round == 0) largest = best[0];
    const float weight = expf(best[0] - largest);
    chosen += weight;
    if (thread == 0) {
      topk_weights[token * topk + round] = weight;
      topk_ids[token * topk + round] = where[0];
      if (where[0] >= 0) logits[where[0]] = __int_as_float(0x7fffffff);
    }
    __syncthreads();
  }
  float sum = 0.0f;
  for (int expert = thread; expert < experts; expert += kThreads) {
    sum += expf(capped(to_float(gating[token * experts + expert]), cap, bias, expert) - largest);
  }
  best[thread] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) best[thread] += best[thread + half];
    __syncthreads();
  }
  const float divisor = renormalize ? chosen : best[0];
  for (int round = thread; round < topk; round += kThreads) {
    topk_weights[token * topk + round] /= divisor;
  }
}

template <typename T>
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, const void* bias,
                   int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float cap,
                   cudaStream_t stream) {
  by_logits<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
      static_cast<const T*>(gating), static_cast<const float*>(bias),
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
