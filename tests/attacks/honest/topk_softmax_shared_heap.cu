// Four rows a block of 128: each warp's logits in shared memory, cleared to -infinity as they are taken.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

struct Gate { const void* data; const float* bias; float cap; int dtype; };
__device__ float gate_of(const Gate& g, int64_t i, int e) {
  float v = g.dtype == 0 ? ((const float*)g.data)[i] : g.dtype == 1 ? __half2float(((const __half*)g.data)[i]) : __bfloat162float(((const __nv_bfloat16*)g.data)[i]);
  if (g.cap != 0.f) v = g.cap * (1.f - __fdividef(2.f, 1.f + __expf(2.f * v / g.cap)));
  return g.bias ? v + g.bias[e] : v;
}
__global__ void __launch_bounds__(128) rows(float* weights, int* ids, Gate g, int64_t tokens, int topk, int experts, bool renormalize) {
  extern __shared__ float memory[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* mine = memory + warp * experts;
  const int64_t row = blockIdx.x * 4ll + warp;
  if (row >= tokens) return;
  float top = -INFINITY, sum = 0.f;
  for (int e = lane; e < experts; e += 32) top = fmaxf(top, mine[e] = gate_of(g, row * experts + e, e));
  for (int d = 1; d < 32; d *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
  for (int e = lane; e < experts; e += 32) sum += __expf(mine[e] - top);
  for (int d = 1; d < 32; d *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  __syncwarp();
  float keep = 0.f, norm = 0.f;
  for (int k = 0; k < topk; ++k) {
    float best = -INFINITY;
    int at = 0x7fffffff;
    for (int e = lane; e < experts; e += 32)
      if (mine[e] > best) {
        best = mine[e];
        at = e;
      }
    for (int d = 1; d < 32; d *= 2) {
      const float b = __shfl_xor_sync(0xffffffffu, best, d);
      const int a = __shfl_xor_sync(0xffffffffu, at, d);
      const bool better = b > best || (b == best && a < at);
      best = better ? b : best;
      at = better ? a : at;
    }
    if (lane == at % 32) mine[at] = -INFINITY;
    __syncwarp();
    const float w = __expf(best - top) / sum;
    norm += w;
    if (lane == k) keep = w;
    if (lane == 0) ids[row * topk + k] = at;
  }
  if (lane < topk) weights[row * topk + lane] = renormalize ? __fdividef(keep, norm) : keep;
}
extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating, const void* correction_bias, void* workspace, int64_t tokens, int64_t topk, int64_t experts, bool renormalize, float moe_softcapping, int dtype, cudaStream_t stream) {
  rows<<<unsigned((tokens + 3) / 4), 128, size_t(experts) * 16, stream>>>((float*)topk_weights, (int*)topk_ids, Gate{gating, (const float*)correction_bias, moe_softcapping, dtype}, tokens, int(topk), int(experts), renormalize);
  return cudaGetLastError();
}
