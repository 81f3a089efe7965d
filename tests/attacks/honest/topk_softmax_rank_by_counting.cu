// A block a row: every expert counts those that come before it, and writes itself at that place.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>

template <typename T>
__global__ void ranks(float* weights, int* ids, const T* gating, const float* bias, int topk, int experts, bool renormalize, float cap) {
  extern __shared__ float logit[];
  __shared__ float parts[4], top, total, chosen[32];
  for (int e = threadIdx.x; e < experts; e += 128) {
    float v = float(gating[int64_t(blockIdx.x) * experts + e]);
    if (cap != 0) {
      const float t = expf(-2 * fabsf(v / cap));
      v = copysignf(cap * (1 - t) / (1 + t), v);
    }
    logit[e] = bias ? v + bias[e] : v;
  }
  __syncthreads();
  float m = -INFINITY;
  for (int e = threadIdx.x; e < experts; e += 128) m = fmaxf(m, logit[e]);
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x == 0) top = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
  __syncthreads();
  float s = 0;
  for (int e = threadIdx.x; e < experts; e += 128) s += expf(logit[e] - top);
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) total = parts[0] + parts[1] + parts[2] + parts[3];
  __syncthreads();
  for (int e = threadIdx.x; e < experts; e += 128) {
    const float v = logit[e];
    int before = 0;
    for (int o = 0; o < experts && before < topk; ++o) before += logit[o] > v || (logit[o] == v && o < e);
    if (before < topk) {
      chosen[before] = expf(v - top) / total;
      ids[int64_t(blockIdx.x) * topk + before] = e;
    }
  }
  __syncthreads();
  if (threadIdx.x < topk) {
    float all = 0;
    for (int i = 0; i < topk; ++i) all += chosen[i];
    weights[int64_t(blockIdx.x) * topk + threadIdx.x] = renormalize ? chosen[threadIdx.x] / all : chosen[threadIdx.x];
  }
}
extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating, const void* correction_bias, void* workspace, int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float moe_softcapping, int dtype, cudaStream_t stream) {
  const unsigned bytes = unsigned(experts) * 4;
  switch (dtype) {
    case 0: ranks<float><<<unsigned(tokens), 128, bytes, stream>>>((float*)topk_weights, (int*)topk_ids, (const float*)gating, (const float*)correction_bias, int(topk), int(experts), renormalize, moe_softcapping); break;
    case 1: ranks<__half><<<unsigned(tokens), 128, bytes, stream>>>((float*)topk_weights, (int*)topk_ids, (const __half*)gating, (const float*)correction_bias, int(topk), int(experts), renormalize, moe_softcapping); break;
    case 2: ranks<__nv_bfloat16><<<unsigned(tokens), 128, bytes, stream>>>((float*)topk_weights, (int*)topk_ids, (const __nv_bfloat16*)gating, (const float*)correction_bias, int(topk), int(experts), renormalize, moe_softcapping); break;
  }
  return cudaGetLastError();
}
