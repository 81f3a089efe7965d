// An honest moe_experts_small: one launch, a block a token, a thread a column at a time, all terms in
// order in one fp32 sum; h of one expert after the other in shared memory.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kMostIntermediate = 4096;

__device__ float product(const __nv_bfloat16* a, const __nv_bfloat16* b, int length) {
  float sum = 0.0f;
  for (int i = 0; i < length; ++i) {
    sum = fmaf(__bfloat162float(a[i]), __bfloat162float(b[i]), sum);
  }
  return sum;
}

__global__ void token_kernel(__nv_bfloat16* out, const __nv_bfloat16* x, const __nv_bfloat16* w13,
                             const __nv_bfloat16* w2, const float* weights, const int* ids,
                             float* parts, int hidden, int intermediate, int topk) {
  __shared__ __nv_bfloat16 h[kMostIntermediate];
  const int token = blockIdx.x;
  float* sums = parts + token * topk * hidden;
  for (int place = 0; place < topk; ++place) {
    const int64_t expert = ids[token * topk + place];
    const __nv_bfloat16* gates = w13 + expert * 2 * intermediate * hidden;
    for (int j = threadIdx.x; j < intermediate; j += kThreads) {
      const float gate = product(gates + j * hidden, x + token * hidden, hidden);
      const float up = product(gates + (intermediate + j) * hidden, x + token * hidden, hidden);
      h[j] = __float2bfloat16_rn(gate / (1.0f + expf(-gate)) * up);
    }
    __syncthreads();
    const float weight = weights[token * topk + place];
    for (int i = threadIdx.x; i < hidden; i += kThreads) {
      const float sum = product(w2 + (expert * hidden + i) * intermediate, h, intermediate);
      sums[i] = fmaf(weight, sum, place ? sums[i] : 0.0f);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < hidden; i += kThreads) {
    out[token * hidden + i] = __float2bfloat16_rn(sums[i]);
  }
}

}  // namespace

extern "C" cudaError_t moe_experts_small(void* out, const void* hidden_states, const void* w13,
                                         const void* w2, const void* topk_weights,
                                         const void* topk_ids, void*, void* parts, int64_t tokens,
                                         int64_t hidden, int64_t intermediate, int64_t,
                                         int64_t topk, int, cudaStream_t stream) {
  token_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(hidden_states),
      static_cast<const __nv_bfloat16*>(w13), static_cast<const __nv_bfloat16*>(w2),
      static_cast<const float*>(topk_weights), static_cast<const int*>(topk_ids),
      static_cast<float*>(parts), static_cast<int>(hidden), static_cast<int>(intermediate),
      static_cast<int>(topk));
  return cudaGetLastError();
}
