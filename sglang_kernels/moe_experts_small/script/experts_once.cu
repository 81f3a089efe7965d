// Experts of a few tokens on tensor cores, in two launches; weights of an expert are read once,
// however many tokens chose it. A product multiplies the rows of all tokens, of those that did not
// choose the expert zeros, by eight rows of weights. Which terms of a sum a thread holds is free, as
// long as both operands agree: each thread takes eight neighbours, by one 16-byte load of weights
// and one of each of its tokens. Warps of a block share the sums and add theirs in shared memory, in
// a fixed order. First a block has eight columns of gate and up of an expert; then eight columns of
// the results, for all experts: no sum leaves its block, and none depends on a race. The second
// launch starts early and waits for the first.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kTile = 8;    // rows of weights of a product
constexpr int kVector = 8;  // of bfloat16 in 16 bytes
constexpr int kChunk = 32;  // terms that a warp takes at a time: four threads a row
constexpr int kAhead = 4;   // neighbouring chunks of a warp whose loads are under way at once
constexpr int kUnit = kAhead * kChunk;
constexpr int kMostTokens = 16;
constexpr int kMostPlaces = 8;
constexpr int kMostPairs = kMostTokens * kMostPlaces;
constexpr int kMultiprocessors = 132;

__device__ __forceinline__ uint4 load_once(const __nv_bfloat16* address) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
      : "l"(address));
  return bits;
}

__device__ __forceinline__ uint4 load_or_zeros(bool there, const __nv_bfloat16* address) {
  return there ? *reinterpret_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void multiply_half(float (&sums)[4], uint32_t x0, uint32_t x1,
                                              uint32_t x2, uint32_t x3, uint32_t w0, uint32_t w1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(w0), "r"(w1));
}

__device__ __forceinline__ void multiply(float (&sums)[4], const uint4& low, const uint4& high,
                                         const uint4& by) {
  multiply_half(sums, low.x, high.x, low.y, high.y, by.x, by.y);
  multiply_half(sums, low.z, high.z, low.w, high.w, by.z, by.w);
}

// The distinct experts of a call, in the order of their first pair of a token and a place, and where
// each token has them.
struct Chosen {
  int ids[kMostPairs];
  int number[kMostPairs];  // of an expert by its first pair; of another pair -1
  int expert[kMostPairs];
  int pair[kMostPairs][kMostTokens];  // of an expert and a token, or -1
  int count;
};

__device__ void find_experts(Chosen& chosen, const int* ids, int tokens, int topk) {
  const int pairs = tokens * topk;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) chosen.ids[i] = ids[i];
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    bool first = true;
    for (int other = 0; other < i; ++other) first &= chosen.ids[other] != chosen.ids[i];
    chosen.number[i] = first ? 0 : -1;
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    int before = 0;
    for (int from = 0; from < pairs; from += kWarp) {
      const int i = from + threadIdx.x;
      const bool first = i < pairs && chosen.number[i] == 0;
      const unsigned all = __ballot_sync(0xffffffffu, first);
      if (first) {
        const int number = before + __popc(all & ((1u << threadIdx.x) - 1u));
        chosen.number[i] = number;
        chosen.expert[number] = chosen.ids[i];
      }
      before += __popc(all);
    }
    if (threadIdx.x == 0) chosen.count = before;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < chosen.count * kMostTokens; i += blockDim.x) {
    const int expert = chosen.expert[i / kMostTokens];
    const int token = i % kMostTokens;
    int found = -1;
    for (int place = 0; token < tokens && place < topk; ++place) {
      if (chosen.ids[token * topk + place] == expert) found = token * topk + place;
    }
    chosen.pair[i / kMostTokens][token] = found;
  }
  __syncthreads();
}

// kBoth: whether there are more than eight tokens.
template <int kWarps, bool kBoth>
__global__ void __launch_bounds__(kWarps* kWarp)
    activate_kernel(__nv_bfloat16* __restrict__ activated, const __nv_bfloat16* __restrict__ x,
                    const __nv_bfloat16* __restrict__ w13, const int* __restrict__ ids, int tokens,
                    int hidden, int intermediate, int topk) {
  __shared__ Chosen chosen;
  __shared__ float partial[kWarps][2][kBoth ? 16 : 8][kTile];
  asm volatile("griddepcontrol.launch_dependents;");
  find_experts(chosen, ids, tokens, topk);
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int own = warp * kUnit + lane % 4 * kVector;
  const int tiles = intermediate / kTile;

  for (int item = blockIdx.x; item < chosen.count * tiles; item += gridDim.x) {
    const int number = item / tiles;
    const int first = item % tiles * kTile;
    const bool low_there = chosen.pair[number][group] >= 0;
    const bool high_there = kBoth && chosen.pair[number][group + 8] >= 0;
    const int64_t row = static_cast<int64_t>(chosen.expert[number]) * 2 * intermediate + first;
    const __nv_bfloat16* gates = w13 + (row + group) * hidden;
    const __nv_bfloat16* ups = gates + static_cast<int64_t>(intermediate) * hidden;
    float gate[4] = {}, up[4] = {};
    for (int from = own; from - lane % 4 * kVector < hidden; from += kWarps * kUnit) {
      uint4 by_gate[kAhead], by_up[kAhead];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int at = from + ahead * kChunk;
        by_gate[ahead] = at < hidden ? load_once(gates + at) : make_uint4(0, 0, 0, 0);
        by_up[ahead] = at < hidden ? load_once(ups + at) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int at = from + ahead * kChunk;
        const uint4 low = load_or_zeros(low_there && at < hidden, x + group * hidden + at);
        const uint4 high = load_or_zeros(high_there && at < hidden, x + (group + 8) * hidden + at);
        multiply(gate, low, high, by_gate[ahead]);
        multiply(up, low, high, by_up[ahead]);
      }
    }
#pragma unroll
    for (int i = 0; i < (kBoth ? 4 : 2); ++i) {
      partial[warp][0][group + i / 2 * 8][lane % 4 * 2 + i % 2] = gate[i];
      partial[warp][1][group + i / 2 * 8][lane % 4 * 2 + i % 2] = up[i];
    }
    __syncthreads();
    for (int one = threadIdx.x; one < tokens * kTile; one += kWarps * kWarp) {
      const int pair = chosen.pair[number][one / kTile];
      if (pair < 0) continue;
      float a = 0.0f, b = 0.0f;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        a += partial[i][0][one / kTile][one % kTile];
        b += partial[i][1][one / kTile][one % kTile];
      }
      const float h = a / (1.0f + __expf(-a)) * b;
      activated[pair * intermediate + first + one % kTile] = __float2bfloat16_rn(h);
    }
    __syncthreads();
  }
}

template <int kWarps, bool kBoth>
__global__ void __launch_bounds__(kWarps* kWarp, 1024 / (kWarps * kWarp))
    down_kernel(__nv_bfloat16* __restrict__ out, const __nv_bfloat16* activated,
                const __nv_bfloat16* __restrict__ w2, const float* topk_weights, const int* ids,
                int tokens, int hidden, int intermediate, int topk) {
  __shared__ Chosen chosen;
  __shared__ float weights[kMostPairs];
  __shared__ float partial[kWarps][kBoth ? 16 : 8][kTile];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int i = threadIdx.x; i < tokens * topk; i += kWarps * kWarp) weights[i] = topk_weights[i];
  find_experts(chosen, ids, tokens, topk);
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int own = lane % 4 * kVector;
  const int first = blockIdx.x * kTile;
  const int units = (intermediate + kUnit - 1) / kUnit;  // of an expert

  float sums[4] = {};
#pragma unroll 2
  for (int unit = warp; unit < chosen.count * units; unit += kWarps) {
    const int number = unit / units;
    const int from = unit % units * kUnit + own;
    const int low_pair = chosen.pair[number][group];
    const int high_pair = kBoth ? chosen.pair[number][group + 8] : -1;
    const int64_t row = static_cast<int64_t>(chosen.expert[number]) * hidden + first + group;
    const __nv_bfloat16* column = w2 + row * intermediate;
    uint4 by[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int at = from + ahead * kChunk;
      by[ahead] = at < intermediate ? load_once(column + at) : make_uint4(0, 0, 0, 0);
    }
    float of_expert[4] = {};
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int at = from + ahead * kChunk;
      const bool within = at < intermediate;
      const uint4 low =
          load_or_zeros(low_pair >= 0 && within, activated + low_pair * intermediate + at);
      const uint4 high =
          load_or_zeros(high_pair >= 0 && within, activated + high_pair * intermediate + at);
      multiply(of_expert, low, high, by[ahead]);
    }
    const float low_weight = low_pair >= 0 ? weights[low_pair] : 0.0f;
    const float high_weight = high_pair >= 0 ? weights[high_pair] : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] += (i < 2 ? low_weight : high_weight) * of_expert[i];
  }
#pragma unroll
  for (int i = 0; i < (kBoth ? 4 : 2); ++i) {
    partial[warp][group + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[i];
  }
  __syncthreads();
  for (int one = threadIdx.x; one < tokens * kTile; one += kWarps * kWarp) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][one / kTile][one % kTile];
    out[one / kTile * hidden + first + one % kTile] = __float2bfloat16_rn(sum);
  }
}

struct Call {
  __nv_bfloat16* out;
  const __nv_bfloat16* x;
  const __nv_bfloat16* w13;
  const __nv_bfloat16* w2;
  const float* weights;
  const int* ids;
  __nv_bfloat16* activated;
  int tokens, hidden, intermediate, topk;
  cudaStream_t stream;

  template <int kWarps, bool kBoth>
  cudaError_t activate(int items, int blocks) const {
    const unsigned grid = static_cast<unsigned>(min(items, blocks * kMultiprocessors));
    activate_kernel<kWarps, kBoth><<<grid, kWarps * kWarp, 0, stream>>>(
        activated, x, w13, ids, tokens, hidden, intermediate, topk);
    return cudaGetLastError();
  }

  template <int kWarps, bool kBoth>
  cudaError_t down() const {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(hidden / kTile));
    config.blockDim = dim3(kWarps * kWarp);
    config.stream = stream;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &early;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, down_kernel<kWarps, kBoth>, out,
                              static_cast<const __nv_bfloat16*>(activated), w2, weights, ids,
                              tokens, hidden, intermediate, topk);
  }

  template <bool kBoth>
  cudaError_t launch() const {
    // Few columns: large blocks, so that each multiprocessor has enough loads under way.
    const int items = tokens * topk * (intermediate / kTile);
    const int multiprocessors = hidden < 1024 ? 0 : kMultiprocessors;
    const cudaError_t status = items <= 2 * multiprocessors ? activate<16, kBoth>(items, 2)
                               : items <= 4 * multiprocessors ? activate<8, kBoth>(items, 4)
                                                              : activate<4, kBoth>(items, 6);
    if (status != cudaSuccess) return status;
    if (topk * intermediate <= 4 * kUnit) return down<4, kBoth>();
    return hidden <= 4096 ? down<16, kBoth>() : down<8, kBoth>();
  }
};

}  // namespace

extern "C" cudaError_t moe_experts_small(void* out, const void* hidden_states, const void* w13,
                                         const void* w2, const void* topk_weights,
                                         const void* topk_ids, void* activated, void*,
                                         int64_t tokens, int64_t hidden, int64_t intermediate,
                                         int64_t, int64_t topk, int dtype, cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  const Call call{static_cast<__nv_bfloat16*>(out),
                  static_cast<const __nv_bfloat16*>(hidden_states),
                  static_cast<const __nv_bfloat16*>(w13),
                  static_cast<const __nv_bfloat16*>(w2),
                  static_cast<const float*>(topk_weights),
                  static_cast<const int*>(topk_ids),
                  static_cast<__nv_bfloat16*>(activated),
                  static_cast<int>(tokens),
                  static_cast<int>(hidden),
                  static_cast<int>(intermediate),
                  static_cast<int>(topk),
                  stream};
  return tokens > 8 ? call.launch<true>() : call.launch<false>();
}
