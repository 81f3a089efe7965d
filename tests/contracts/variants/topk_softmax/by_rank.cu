// No rounds: each thread counts the experts that come before its own, and knows its place by that.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__global__ void by_rank(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                        const T* __restrict__ gating, int topk, int experts, bool renormalize) {
  __shared__ float logits[1024];
  __shared__ float sums[2];
  const int64_t token = blockIdx.x;
  if (threadIdx.x < 2) sums[threadIdx.x] = 0.0f;
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    logits[expert] = to_float(gating[token * experts + expert]);
  }
  __syncthreads();
  float largest = -INFINITY;
  for (int expert = 0; expert < experts; ++expert) largest = fmaxf(largest, logits[expert]);
  float all = 0.0f, chosen = 0.0f;
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    const float own = logits[expert];
    int rank = 0;
    for (int other = 0; other < experts; ++other) {
      rank += logits[other] > own || (logits[other] == own && other < expert);
    }
    const float weight = expf(own - largest);
    all += weight;
    if (rank < topk) {
      chosen += weight;
      topk_weights[token * topk + rank] = weight;
      topk_ids[token * topk + rank] = expert;
    }
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    all += __shfl_xor_sync(0xffffffffu, all, lanes);
    chosen += __shfl_xor_sync(0xffffffffu, chosen, lanes);
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums[0], all);
    atomicAdd(&sums[1], chosen);
  }
  __syncthreads();
  if (threadIdx.x < topk) {
    topk_weights[token * topk + threadIdx.x] /= sums[renormalize ? 1 : 0];
  }
}

template <typename T>
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, int64_t tokens,
                   int64_t topk, int64_t experts, bool renormalize, cudaStream_t stream) {
  by_rank<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
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
