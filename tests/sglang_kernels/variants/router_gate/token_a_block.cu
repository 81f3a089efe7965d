// An honest router_gate: one launch, a block a token, a thread an expert at a time, all of hidden in
// order in one fp32 sum; one thread chooses, by selection.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 64;
constexpr int kMostExperts = 512;

__global__ void token_kernel(float* weights, int* ids, const __nv_bfloat16* x,
                             const __nv_bfloat16* w, const float* bias, int hidden, int experts,
                             int groups, int topk_groups, int topk, float scale) {
  __shared__ float score[kMostExperts];
  __shared__ float choice[kMostExperts];
  const int token = blockIdx.x;
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    float sum = 0.0f;
    for (int at = 0; at < hidden; ++at) {
      sum = fmaf(__bfloat162float(x[token * hidden + at]),
                 __bfloat162float(w[expert * hidden + at]), sum);
    }
    score[expert] = 1.0f / (1.0f + expf(-sum));
    choice[expert] = score[expert] + bias[expert];
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int size = experts / groups;
  unsigned open = 0;
  for (int round = 0; round < topk_groups; ++round) {
    float largest = -INFINITY;
    int chosen = 0;
    for (int group = 0; group < groups; ++group) {
      if (open >> group & 1) continue;
      float best = -INFINITY, second = -INFINITY;
      for (int i = group * size; i < (group + 1) * size; ++i) {
        second = fmaxf(second, fminf(best, choice[i]));
        best = fmaxf(best, choice[i]);
      }
      if (best + second > largest) {
        largest = best + second;
        chosen = group;
      }
    }
    open |= 1u << chosen;
  }
  float sum = 1e-20f;
  for (int place = 0; place < topk; ++place) {
    int best = 0;
    float largest = -INFINITY;
    for (int expert = 0; expert < experts; ++expert) {
      if ((open >> (expert / size) & 1) == 0 || choice[expert] <= largest) continue;
      best = expert;
      largest = choice[expert];
    }
    ids[token * topk + place] = best;
    weights[token * topk + place] = score[best];
    sum += score[best];
    choice[best] = -INFINITY;
  }
  for (int place = 0; place < topk; ++place) weights[token * topk + place] *= scale / sum;
}

}  // namespace

extern "C" cudaError_t router_gate(void* topk_weights, void* topk_ids, const void* hidden_states,
                                   const void* router_weight, const void* correction_bias, void*,
                                   int64_t tokens, int64_t hidden, int64_t experts, int64_t groups,
                                   int64_t topk_groups, int64_t topk, float routed_scaling_factor,
                                   int, cudaStream_t stream) {
  token_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
      static_cast<const __nv_bfloat16*>(hidden_states),
      static_cast<const __nv_bfloat16*>(router_weight), static_cast<const float*>(correction_bias),
      static_cast<int>(hidden), static_cast<int>(experts), static_cast<int>(groups),
      static_cast<int>(topk_groups), static_cast<int>(topk), routed_scaling_factor);
  return cudaGetLastError();
}
