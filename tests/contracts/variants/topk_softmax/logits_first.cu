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

template <typename T>
__global__ void by_logits(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                          const T* __restrict__ gating, int topk, int experts, bool renormalize) {
  __shared__ float logits[1024];
  __shared__ float best[kThreads];
  __shared__ int where[kThreads];
  const int64_t token = blockIdx.x;
  const int thread = threadIdx.x;
  for (int expert = thread; expert < experts; expert += kThreads) {
    logits[expert] = to_float(gating[token * experts + expert]);
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
    sum += expf(to_float(gating[token * experts + expert]) - largest);
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
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, int64_t tokens,
                   int64_t topk, int64_t experts, bool renormalize, cudaStream_t stream) {
  by_logits<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
      static_cast<const T*>(gating), static_cast<int>(topk), static_cast<int>(experts),
      renormalize);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    int64_t tokens, int64_t topk, int64_t experts,
                                    bool renormalize, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(topk_weights, topk_ids, gating, tokens, topk, experts, renormalize,
                           stream);
    case 1:
      return launch<__half>(topk_weights, topk_ids, gating, tokens, topk, experts, renormalize,
                            stream);
    case 2:
      return launch<__nv_bfloat16>(topk_weights, topk_ids, gating, tokens, topk, experts,
                                   renormalize, stream);
    default: return cudaErrorInvalidValue;
  }
}
