// Logits to the workspace flat, then a warp a row selects from there, crossing out in a bitmap of its own.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void to_logits(float* logits, const T* gating, const float* bias, int64_t all, int experts, float cap) {
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < all; i += gridDim.x * int64_t(blockDim.x)) {
    float v = gating[i];
    if (cap != 0.0f) v = cap * (1.0f - 2.0f / (1.0f + exp2f(2.885390082f * v / cap)));
    logits[i] = bias == nullptr ? v : v + bias[i % experts];
  }
}
__global__ void select(float* weights, int* ids, const float* logits, int64_t tokens, int topk, int experts, bool renormalize) {
  const int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= tokens) return;
  const float* own = logits + row * experts;
  float sum = 0.0f, top = 0.0f, chosen = 0.0f;
  unsigned taken = 0;
  for (int round = 0; round < topk; ++round) {
    float best = -INFINITY;
    int at = experts;
    for (int e = lane, bit = 0; e < experts; e += 32, ++bit)
      if (!(taken >> bit & 1) && own[e] > best) best = own[e], at = e;
    for (int d = 16; d; d /= 2) {
      const float b = __shfl_xor_sync(0xffffffffu, best, d);
      const int a = __shfl_xor_sync(0xffffffffu, at, d);
      if (b > best || (b == best && a < at)) best = b, at = a;
    }
    if (round == 0) {
      top = best;
      for (int e = lane; e < experts; e += 32) sum += expf(own[e] - top);
      for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    }
    if (at % 32 == lane) taken |= 1u << at / 32;
    const float weight = expf(best - top) * (1.0f / sum);
    chosen += weight;
    if (lane == 0) weights[row * topk + round] = weight, ids[row * topk + round] = at;
  }
  __syncwarp();
  if (renormalize && lane == 0)
    for (int i = 0; i < topk; ++i) weights[row * topk + i] *= 1.0f / chosen;
}
extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating, const void* correction_bias, void* workspace, int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float moe_softcapping, int dtype, cudaStream_t stream) {
  const int64_t all = tokens * experts;
  const unsigned grid = unsigned(all < 256 * 4096ll ? (all + 255) / 256 : 4096);
  float* logits = (float*)workspace;
  const float* bias = (const float*)correction_bias;
  if (dtype == 0) to_logits<<<grid, 256, 0, stream>>>(logits, (const float*)gating, bias, all, int(experts), moe_softcapping);
  if (dtype == 1) to_logits<<<grid, 256, 0, stream>>>(logits, (const __half*)gating, bias, all, int(experts), moe_softcapping);
  if (dtype == 2) to_logits<<<grid, 256, 0, stream>>>(logits, (const __nv_bfloat16*)gating, bias, all, int(experts), moe_softcapping);
  if (const cudaError_t error = cudaGetLastError()) return error;
  select<<<unsigned((tokens + 7) / 8), 256, 0, stream>>>((float*)topk_weights, (int*)topk_ids, logits, tokens, int(topk), int(experts), renormalize);
  return cudaGetLastError();
}
