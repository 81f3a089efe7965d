// A router with DeepSeek V3's choice of experts, as two launches: the algorithms of SGLang's
// compiled library (sgl-kernel, csrc/gemm/dsv3_router_gemm_float_out.cu and
// csrc/moe/moe_fused_gate.cu), for any extents. First a block an expert: each thread takes eight of
// hidden at a time, by one 16-byte load of the weights and one of every row of up to sixteen tokens,
// and adds in fp32; warps reduce by shuffles, the block in shared memory. Then a warp a token: groups
// by their two best, and a round of the largest for each expert to choose.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kVector = 8;  // of bfloat16 in 16 bytes
constexpr int kMostRows = 16;
constexpr int kMostExperts = 512;
constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreads) product_kernel(float* __restrict__ logits,
                                                           const __nv_bfloat16* __restrict__ x,
                                                           const __nv_bfloat16* __restrict__ w,
                                                           int tokens, int hidden, int experts) {
  __shared__ float partial[kRows][kWarps];
  const int expert = blockIdx.x;
  const int first = blockIdx.y * kRows;
  const __nv_bfloat16* w_row = w + static_cast<int64_t>(expert) * hidden;

  float sums[kRows] = {};
  for (int at = threadIdx.x * kVector; at < hidden; at += kThreads * kVector) {
    float weights[kVector];
    to_floats(*reinterpret_cast<const uint4*>(w_row + at), weights);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      // Beyond the last token the last is read again, and what it gives is not stored.
      const int token = min(first + row, tokens - 1);
      float values[kVector];
      to_floats(*reinterpret_cast<const uint4*>(x + token * hidden + at), values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sums[row] += values[i] * weights[i];
    }
  }

  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      sums[row] += __shfl_xor_sync(kAll, sums[row], offset);
    }
    if (lane == 0) partial[row][warp] = sums[row];
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row < kRows && first + row < tokens) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[row][i];
    logits[(first + row) * experts + expert] = sum;
  }
}

// The largest value of a warp, of equal ones that with the lower number, in all lanes.
__device__ __forceinline__ void largest(float& value, int& number) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kAll, value, offset);
    const int its_number = __shfl_xor_sync(kAll, number, offset);
    if (other > value || (other == value && its_number < number)) {
      value = other;
      number = its_number;
    }
  }
}

// Bits of the groups whose two best have the largest sums. A lane a group.
__device__ __forceinline__ unsigned best_groups(const float* choice, int lane, int groups,
                                                int topk_groups, int size) {
  float sum = -INFINITY;
  if (lane < groups) {
    float best = -INFINITY;
    float second = -INFINITY;
    for (int i = 0; i < size; ++i) {
      const float value = choice[lane * size + i];
      second = fmaxf(second, fminf(best, value));
      best = fmaxf(best, value);
    }
    sum = best + second;
  }
  unsigned chosen = 0;
  for (int round = 0; round < topk_groups; ++round) {
    float value = sum;
    int group = lane;
    largest(value, group);
    chosen |= 1u << group;
    if (lane == group) sum = -INFINITY;
  }
  return chosen;
}

__global__ void __launch_bounds__(kThreads) gate_kernel(float* __restrict__ topk_weights,
                                                        int* __restrict__ topk_ids,
                                                        const float* __restrict__ logits,
                                                        const float* __restrict__ bias, int tokens,
                                                        int experts, int groups, int topk_groups,
                                                        int topk, float scale) {
  __shared__ float all_choices[kWarps][kMostExperts];
  __shared__ float all_scores[kWarps][kMostExperts];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int token = blockIdx.x * kWarps + warp;
  if (token >= tokens) return;
  float* choice = all_choices[warp];
  float* scores = all_scores[warp];
  for (int expert = lane; expert < experts; expert += kWarp) {
    const float score = 1.0f / (1.0f + __expf(-logits[token * experts + expert]));
    scores[expert] = score;
    choice[expert] = score + bias[expert];
  }
  __syncwarp();
  const int size = experts / groups;
  const unsigned chosen = best_groups(choice, lane, groups, topk_groups, size);
  __syncwarp();
  for (int expert = lane; expert < experts; expert += kWarp) {
    if ((chosen >> (expert / size) & 1u) == 0) choice[expert] = -INFINITY;
  }

  float sum = 0.0f;
  float kept = 0.0f;
  for (int round = 0; round < topk; ++round) {
    __syncwarp();
    float value = -INFINITY;
    int best = kMostExperts;
    for (int expert = lane; expert < experts; expert += kWarp) {
      if (choice[expert] > value) {
        value = choice[expert];
        best = expert;
      }
    }
    largest(value, best);
    sum += scores[best];
    if (lane == round) {
      kept = scores[best];
      topk_ids[token * topk + round] = best;
    }
    __syncwarp();
    if (lane == 0) choice[best] = -INFINITY;
  }
  if (lane < topk) topk_weights[token * topk + lane] = kept / (sum + 1e-20f) * scale;
}

template <int kRows>
cudaError_t product(int rows, float* logits, const __nv_bfloat16* x, const __nv_bfloat16* w,
                    int tokens, int hidden, int experts, cudaStream_t stream) {
  if constexpr (kRows > 0) {
    if (rows != kRows) {
      return product<kRows - 1>(rows, logits, x, w, tokens, hidden, experts, stream);
    }
    const dim3 grid(static_cast<unsigned>(experts),
                    static_cast<unsigned>((tokens + kRows - 1) / kRows));
    product_kernel<kRows><<<grid, kThreads, 0, stream>>>(logits, x, w, tokens, hidden, experts);
    return cudaGetLastError();
  }
  return cudaErrorInvalidValue;
}

}  // namespace

extern "C" cudaError_t router_gate(void* topk_weights, void* topk_ids, const void* hidden_states,
                                   const void* router_weight, const void* correction_bias,
                                   void* workspace, int64_t tokens, int64_t hidden,
                                   int64_t experts, int64_t groups, int64_t topk_groups,
                                   int64_t topk, float routed_scaling_factor, int dtype,
                                   cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  const int count = static_cast<int>(tokens);
  const int parts = (count + kMostRows - 1) / kMostRows;
  float* logits = static_cast<float*>(workspace);
  const cudaError_t status = product<kMostRows>(
      (count + parts - 1) / parts, logits, static_cast<const __nv_bfloat16*>(hidden_states),
      static_cast<const __nv_bfloat16*>(router_weight), count, static_cast<int>(hidden),
      static_cast<int>(experts), stream);
  if (status != cudaSuccess) return status;
  gate_kernel<<<static_cast<unsigned>((count + kWarps - 1) / kWarps), kThreads, 0, stream>>>(
      static_cast<float*>(topk_weights), static_cast<int*>(topk_ids), logits,
      static_cast<const float*>(correction_bias), count, static_cast<int>(experts),
      static_cast<int>(groups), static_cast<int>(topk_groups), static_cast<int>(topk),
      routed_scaling_factor);
  return cudaGetLastError();
}
