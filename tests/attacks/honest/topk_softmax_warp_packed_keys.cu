// A warp a row; logits in registers; argmax on a 64-bit key of ordered logit and reversed expert.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

__device__ unsigned ordered(float v) {
  const unsigned u = __float_as_uint(v);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}
__device__ float unordered(unsigned u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }
template <typename T>
__global__ __launch_bounds__(128) void keys(float* weights, int* ids, const T* gating, const float* bias, int64_t tokens, int topk, int experts, bool renormalize, float cap) {
  constexpr int kMost = 32;
  const int lane = threadIdx.x & 31;
  const int64_t row = blockIdx.x * 4ll + (threadIdx.x >> 5);
  if (row >= tokens) return;
  unsigned long long held[kMost];
  float top = -INFINITY;
#pragma unroll
  for (int k = 0; k < kMost; ++k) {
    const int e = k * 32 + lane;
    held[k] = 0;
    if (e < experts) {
      float v = static_cast<float>(gating[row * experts + e]);
      if (cap != 0.0f) v = cap - 2.0f * cap / (1.0f + __expf(2.0f * v / cap));
      if (bias != nullptr) v += bias[e];
      top = fmaxf(top, v);
      held[k] = static_cast<unsigned long long>(ordered(v + 0.0f)) << 32 | static_cast<unsigned>(1023 - e);
    }
  }
  for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kMost; ++k)
    if (held[k]) sum += __expf(unordered(static_cast<unsigned>(held[k] >> 32)) - top);
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  float mine = 0.0f, chosen = 0.0f;
  int my_id = 0;
  for (int round = 0; round < topk; ++round) {
    unsigned long long best = 0;
#pragma unroll
    for (int k = 0; k < kMost; ++k) best = held[k] > best ? held[k] : best;
    for (int d = 16; d; d >>= 1) {
      const unsigned long long other = __shfl_xor_sync(0xffffffffu, best, d);
      best = other > best ? other : best;
    }
#pragma unroll
    for (int k = 0; k < kMost; ++k)
      if (held[k] == best) held[k] = 0;
    const float weight = __expf(unordered(static_cast<unsigned>(best >> 32)) - top) / sum;
    chosen += weight;
    if (lane == round) {
      mine = weight;
      my_id = 1023 - static_cast<int>(best & 0xffffffffu);
    }
  }
  if (lane < topk) {
    weights[row * topk + lane] = renormalize ? mine / chosen : mine;
    ids[row * topk + lane] = my_id;
  }
}
extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating, const void* correction_bias, void* workspace, int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float moe_softcapping, int dtype, cudaStream_t stream) {
  const unsigned grid = unsigned((tokens + 3) / 4);
  auto* w = (float*)topk_weights;
  auto* i = (int*)topk_ids;
  auto* b = (const float*)correction_bias;
  if (dtype == 0) keys<<<grid, 128, 0, stream>>>(w, i, (const float*)gating, b, tokens, int(topk), int(experts), renormalize, moe_softcapping);
  else if (dtype == 1) keys<<<grid, 128, 0, stream>>>(w, i, (const __half*)gating, b, tokens, int(topk), int(experts), renormalize, moe_softcapping);
  else keys<<<grid, 128, 0, stream>>>(w, i, (const __nv_bfloat16*)gating, b, tokens, int(topk), int(experts), renormalize, moe_softcapping);
  return cudaGetLastError();
}
