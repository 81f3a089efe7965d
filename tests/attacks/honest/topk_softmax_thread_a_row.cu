// One thread a row: an insertion into the best topk, kept in the outputs themselves.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void serial(float* weights, int* ids, const T* gating, const float* bias, int64_t tokens, int topk, int experts, bool renormalize, float cap) {
  const int64_t row = blockIdx.x * 64ll + threadIdx.x;
  if (row >= tokens) return;
  float* w = weights + row * topk;
  int* id = ids + row * topk;
  int have = 0;
  float top = -INFINITY, sum = 0;
  for (int e = 0; e < experts; ++e) {
    float v = float(gating[row * experts + e]);
    if (cap != 0.f) v = cap * (1.f - 2.f / (1.f + expf(2.f * (v / cap))));
    if (bias) v += bias[e];
    top = fmaxf(top, v);
    int place = have;
    while (place > 0 && v > w[place - 1]) --place;
    if (place >= topk) continue;
    if (have < topk) ++have;
    for (int i = have - 1; i > place; --i) {
      w[i] = w[i - 1];
      id[i] = id[i - 1];
    }
    w[place] = v;
    id[place] = e;
  }
  for (int e = 0; e < experts; ++e) {
    float v = float(gating[row * experts + e]);
    if (cap != 0.f) v = cap * (1.f - 2.f / (1.f + expf(2.f * (v / cap))));
    if (bias) v += bias[e];
    sum += expf(v - top);
  }
  float chosen = 0;
  for (int i = 0; i < topk; ++i) chosen += w[i] = expf(w[i] - top) / sum;
  if (renormalize)
    for (int i = 0; i < topk; ++i) w[i] /= chosen;
}
extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating, const void* correction_bias, void* workspace, int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float moe_softcapping, int dtype, cudaStream_t stream) {
  const unsigned blocks = unsigned((tokens + 63) / 64);
  const auto go = [&](auto* g) { serial<<<blocks, 64, 0, stream>>>((float*)topk_weights, (int*)topk_ids, g, (const float*)correction_bias, tokens, int(topk), int(experts), renormalize, moe_softcapping); };
  if (dtype == 0) go((const float*)gating);
  if (dtype == 1) go((const __half*)gating);
  if (dtype == 2) go((const __nv_bfloat16*)gating);
  return cudaGetLastError();
}
