// A router with DeepSeek V3's choice of experts. First tensor cores multiply, sixteen experts by
// eight tokens at a time; which of hidden a thread holds is free as long as both operands agree, so
// each thread takes eight neighbours, one 16-byte load, for two products. Blocks share the experts
// and parts of hidden, about one block a multiprocessor, so that all loads of the weights are under
// way at once; warps of a block add their parts in shared memory. Then a block a token adds the
// parts of each logit, a thread an expert, and counts how many groups and experts are better than its
// own: no rounds.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kExperts = 16;  // of a block
constexpr int kTile = 8;      // tokens of one product
constexpr int kChunk = 32;    // of hidden that a warp takes at a time: four threads a row
constexpr int kVector = 8;    // of bfloat16 in 16 bytes
constexpr int kMostParts = 16;
constexpr int kBlocks = 132;  // multiprocessors
constexpr int kMostExperts = 512;
constexpr int kMostGroups = 8;
constexpr int kMostTopk = 16;

__device__ __forceinline__ uint4 load_once(const __nv_bfloat16* address) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
      : "l"(address));
  return bits;
}

__device__ __forceinline__ void multiply(float (&sums)[4], uint32_t w0, uint32_t w1, uint32_t w2,
                                         uint32_t w3, uint32_t x0, uint32_t x1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(w0), "r"(w1), "r"(w2), "r"(w3), "r"(x0), "r"(x1));
}

// kTiles: groups of eight tokens; kWarps share the block's part of hidden, kAhead chunks at a time.
template <int kTiles, int kWarps, int kAhead>
__global__ void __launch_bounds__(kWarps* kWarp) parts_kernel(float* __restrict__ parts,
                                                              const __nv_bfloat16* __restrict__ x,
                                                              const __nv_bfloat16* __restrict__ w,
                                                              int tokens, int hidden, int experts,
                                                              int length) {
  constexpr int kThreads = kWarps * kWarp;
  __shared__ float partial[kWarps][kTiles * kTile][kExperts];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int first = blockIdx.x * kExperts;
  const int end = min(hidden, static_cast<int>(blockIdx.y + 1) * length);
  const int start = blockIdx.y * length + warp * kChunk + lane % 4 * kVector;

  // Beyond the last expert and token these are read again, and what they give is not stored.
  const __nv_bfloat16* low_row = w + static_cast<int64_t>(min(first + group, experts - 1)) * hidden;
  const __nv_bfloat16* high_row =
      w + static_cast<int64_t>(min(first + group + 8, experts - 1)) * hidden;
  const __nv_bfloat16* rows[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    rows[tile] = x + min(tile * kTile + group, tokens - 1) * hidden;
  }

  float sums[kTiles][4] = {};
  const uint4 zeros = make_uint4(0, 0, 0, 0);
  for (int from = 0; from < length; from += kAhead * kWarps * kChunk) {
    uint4 low[kAhead], high[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int at = start + from + ahead * kWarps * kChunk;
      low[ahead] = at < end ? load_once(low_row + at) : zeros;
      high[ahead] = at < end ? load_once(high_row + at) : zeros;
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int at = start + from + ahead * kWarps * kChunk;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 by = at < end ? *reinterpret_cast<const uint4*>(rows[tile] + at) : zeros;
        multiply(sums[tile], low[ahead].x, high[ahead].x, low[ahead].y, high[ahead].y, by.x, by.y);
        multiply(sums[tile], low[ahead].z, high[ahead].z, low[ahead].w, high[ahead].w, by.z, by.w);
      }
    }
  }

  const int token = lane % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    partial[warp][tile * kTile + token][group] = sums[tile][0];
    partial[warp][tile * kTile + token + 1][group] = sums[tile][1];
    partial[warp][tile * kTile + token][group + 8] = sums[tile][2];
    partial[warp][tile * kTile + token + 1][group + 8] = sums[tile][3];
  }
  __syncthreads();
  for (int one = threadIdx.x; one < tokens * kExperts; one += kThreads) {
    const int expert = first + one % kExperts;
    if (expert >= experts) continue;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][one / kExperts][one % kExperts];
    parts[(blockIdx.y * tokens + one / kExperts) * experts + expert] = sum;
  }
}

// How many of `size` numbers from `first` on are better than the one at `own`: larger, or equal and
// earlier.
__device__ __forceinline__ int better_than(const float* numbers, int first, int size, int own) {
  const float value = numbers[own];
  int count = 0;
#pragma unroll 8
  for (int i = first; i < first + size; ++i) {
    const float other = numbers[i];
    count += other > value || (other == value && i < own) ? 1 : 0;
  }
  return count;
}

// A thread an expert.
__global__ void __launch_bounds__(kMostExperts) gate_kernel(
    float* __restrict__ topk_weights, int* __restrict__ topk_ids, const float* __restrict__ parts,
    const float* __restrict__ bias, int tokens, int experts, int groups, int topk_groups, int topk,
    float scale, int count) {
  __shared__ float choice[kMostExperts];
  __shared__ float best[kMostGroups][2];
  __shared__ float group_sums[kMostGroups];
  __shared__ bool chosen[kMostGroups];
  __shared__ float kept[kMostTopk];
  const int token = blockIdx.x;
  const int expert = threadIdx.x;
  const bool there = expert < experts;
  const int size = experts / groups;
  const int group = expert / size;
  const float added = there ? bias[expert] : 0.0f;

  float logit = 0.0f;
  if (there) {
    const float* from = parts + token * experts + expert;
#pragma unroll 8
    for (int part = 0; part < count; ++part) logit += from[part * tokens * experts];
  }
  const float score = 1.0f / (1.0f + __expf(-logit));
  if (there) choice[expert] = score + added;
  if (expert < kMostGroups) chosen[expert] = true;
  __syncthreads();

  if (groups > 1) {
    const int place = there ? better_than(choice, group * size, size, expert) : size;
    if (place < 2) best[group][place] = choice[expert];
    __syncthreads();
    if (expert < groups) group_sums[expert] = best[expert][0] + best[expert][1];
    __syncthreads();
    if (expert < groups) {
      chosen[expert] = better_than(group_sums, 0, groups, expert) < topk_groups;
    }
    __syncthreads();
  }

  int place = kMostTopk;
  if (there && chosen[group]) {
    place = 0;
    for (int other = 0; other < groups; ++other) {
      if (chosen[other]) place += better_than(choice, other * size, size, expert);
    }
  }
  if (place < topk) {
    topk_ids[token * topk + place] = expert;
    kept[place] = score;
  }
  __syncthreads();
  if (place < topk) {
    float sum = 1e-20f;
    for (int i = 0; i < topk; ++i) sum += kept[i];
    topk_weights[token * topk + place] = score / sum * scale;
  }
}

struct Call {
  float* topk_weights;
  int* topk_ids;
  const __nv_bfloat16* x;
  const __nv_bfloat16* w;
  const float* bias;
  float* parts;
  int tokens, hidden, experts, groups, topk_groups, topk;
  float scale;
  cudaStream_t stream;

  template <int kTiles, int kWarps, int kAhead>
  cudaError_t launch() const {
    const int blocks = (experts + kExperts - 1) / kExperts;
    const int most = min(kMostParts, (hidden + kChunk - 1) / kChunk);
    const int wanted = max(1, min(most, kBlocks / blocks));
    const int chunks = (hidden + wanted * kChunk - 1) / (wanted * kChunk);
    const int length = chunks * kChunk;
    const int count = (hidden + length - 1) / length;
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
    parts_kernel<kTiles, kWarps, kAhead><<<grid, kWarps * kWarp, 0, stream>>>(
        parts, x, w, tokens, hidden, experts, length);
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? choose(count) : status;
  }

  cudaError_t choose(int count) const {
    const unsigned threads = static_cast<unsigned>((experts + kWarp - 1) / kWarp * kWarp);
    gate_kernel<<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
        topk_weights, topk_ids, parts, bias, tokens, experts, groups, topk_groups, topk, scale,
        count);
    return cudaGetLastError();
  }
};

}  // namespace

extern "C" cudaError_t router_gate(void* topk_weights, void* topk_ids, const void* hidden_states,
                                   const void* router_weight, const void* correction_bias,
                                   void* workspace, int64_t tokens, int64_t hidden,
                                   int64_t experts, int64_t groups, int64_t topk_groups,
                                   int64_t topk, float routed_scaling_factor, int dtype,
                                   cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  const Call call{static_cast<float*>(topk_weights),
                  static_cast<int*>(topk_ids),
                  static_cast<const __nv_bfloat16*>(hidden_states),
                  static_cast<const __nv_bfloat16*>(router_weight),
                  static_cast<const float*>(correction_bias),
                  static_cast<float*>(workspace),
                  static_cast<int>(tokens),
                  static_cast<int>(hidden),
                  static_cast<int>(experts),
                  static_cast<int>(groups),
                  static_cast<int>(topk_groups),
                  static_cast<int>(topk),
                  routed_scaling_factor,
                  stream};
  // Few tokens: many warps, whose loads are all under way. More: registers for their sums.
  if (tokens <= 8) return call.launch<1, 14, 2>();
  if (tokens <= 16) return call.launch<2, 14, 2>();
  if (tokens <= 32) return call.launch<4, 7, 4>();
  return call.launch<8, 7, 4>();
}
