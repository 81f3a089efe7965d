// topk_softmax: the algorithm of SGLang's router. A warp a token; each lane holds every 32nd expert in
// registers; rounds of argmax by shuffles, the lower expert where weights are equal.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarps = 4;
constexpr int kEach = 32;
constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__global__ void topk_softmax_kernel(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                                    const T* __restrict__ gating, int64_t tokens, int topk,
                                    int experts, bool renormalize) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = threadIdx.x % 32;
  float held[kEach];
  float largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = i * 32 + lane;
    held[i] = expert < experts ? to_float(gating[token * experts + expert]) : -INFINITY;
    largest = fmaxf(largest, held[i]);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, lanes));
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool there = i * 32 + lane < experts;
    held[i] = there ? expf(held[i] - largest) : -1.0f;
    sum += there ? held[i] : 0.0f;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAll, sum, lanes);
  const float inverse = 1.0f / sum;
  float chosen_sum = 0.0f;
  for (int round = 0; round < topk; ++round) {
    float best = -1.0f;
    int expert = experts;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (held[i] > best) {
        best = held[i];
        expert = i * 32 + lane;
      }
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const float other = __shfl_xor_sync(kAll, best, lanes);
      const int other_expert = __shfl_xor_sync(kAll, expert, lanes);
      if (other > best || (other == best && other_expert < expert)) {
        best = other;
        expert = other_expert;
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (i * 32 + lane == expert) held[i] = -1.0f;
    }
    chosen_sum += best * inverse;
    if (lane == 0) {
      topk_weights[token * topk + round] = best * inverse;
      topk_ids[token * topk + round] = expert;
    }
  }
  if (renormalize && lane == 0) {
    for (int round = 0; round < topk; ++round) {
      topk_weights[token * topk + round] /= chosen_sum;
    }
  }
}

template <typename T>
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, int64_t tokens,
                   int64_t topk, int64_t experts, bool renormalize, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
  topk_softmax_kernel<T><<<blocks, kWarps * 32, 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
      static_cast<const T*>(gating), tokens, static_cast<int>(topk), static_cast<int>(experts),
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
