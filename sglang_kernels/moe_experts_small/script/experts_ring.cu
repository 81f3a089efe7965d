// Experts of a few tokens in one cooperative launch that streams all weights through shared memory.
// A warp of each block brings weights by bulk copies into a ring of stages, as far ahead as the ring
// is large; eight warps multiply. It never waits for results: while the grid meets between both
// products, the ring fills with weights of the second, so that memory is not idle there.
// Rows of an expert's weights are read once, however many tokens chose it: tensor cores multiply the
// rows of all tokens, zeros for those that did not choose it, by eight rows of weights. These are four
// columns of gate and the same four of up, then eight columns of the results for all experts. Which
// terms of a sum a thread holds is free, as long as both operands agree: each takes eight neighbours.
// Warps share the sums and add theirs in shared memory in a fixed order.

#include <cooperative_groups.h>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kMultiplying = 8;  // warps
constexpr int kThreads = (kMultiplying + 1) * kWarp;
constexpr int kRows = 8;     // of weights in a product
constexpr int kColumns = 4;  // of gate, and of up, in a product
constexpr int kVector = 8;   // of bfloat16 in 16 bytes
constexpr int kUnit = 32;    // terms that a warp takes at a time: four threads a row
constexpr int kAhead = 4;    // units of a warp in a stage
constexpr int kUnits = kAhead * kMultiplying;
constexpr int kTerms = kUnits * kUnit;  // of a row in a stage
constexpr int kStride = kTerms + 32;    // of rows that are copied one by one: no bank conflicts
constexpr int kStages = 12;
constexpr int kMostTokens = 16;
constexpr int kMostPairs = 128;
constexpr int kWords = 16;  // bits of 512 experts

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void set_up(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}

__device__ __forceinline__ void expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void wait(uint64_t* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  }
}

__device__ __forceinline__ void bring(__nv_bfloat16* to, const __nv_bfloat16* from, uint32_t bytes,
                                      uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

// Of the warps that multiply.
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kMultiplying * kWarp) : "memory");
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

__device__ __forceinline__ uint4 load_or_zeros(bool there, const __nv_bfloat16* address) {
  return there ? *reinterpret_cast<const uint4*>(address) : make_uint4(0, 0, 0, 0);
}

struct Shared {
  __nv_bfloat16 stages[kStages][kRows * kStride];
  float partial[2][kMultiplying][kMostTokens][kRows];
  uint64_t full[kStages], empty[kStages];
  float weights[kMostPairs];
  int experts[kMostPairs];  // the distinct ones, in ascending order
  int16_t pairs[kMostPairs][kMostTokens];  // of an expert and a token: where it was chosen, or -1
  uint32_t chosen[kWords];
};

struct Call {
  __nv_bfloat16* out;
  const __nv_bfloat16* x;
  const __nv_bfloat16* w13;
  const __nv_bfloat16* w2;
  const float* weights;
  const int* ids;
  __nv_bfloat16* activated;
  int tokens, hidden, intermediate, topk;
};

// Finds the distinct experts of the call. Returns how many there are.
__device__ __forceinline__ int find_experts(Shared& shared, const Call& call) {
  const int pairs = call.tokens * call.topk;
  const int own = threadIdx.x;
  const int id = own < pairs ? call.ids[own] : 0;
  if (own < pairs) shared.weights[own] = call.weights[own];
  if (own < kWords) shared.chosen[own] = 0;
  uint4* table = reinterpret_cast<uint4*>(shared.pairs);
  for (int i = own; i < kMostPairs * kMostTokens / 8; i += kThreads) {
    table[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
  }
  if (own < kStages) {
    set_up(&shared.full[own], 1);
    set_up(&shared.empty[own], kMultiplying);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  const uint32_t bit = 1u << (id & 31);
  bool first = false;
  if (own < pairs) first = (atomicOr(&shared.chosen[id / 32], bit) & bit) == 0;
  __syncthreads();
  int number = 0, count = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    const uint32_t word = shared.chosen[i];
    const int set = __popc(word);
    if (i < id / 32) number += set;
    if (i == id / 32) number += __popc(word & (bit - 1u));
    count += set;
  }
  if (first) shared.experts[number] = id;
  if (own < pairs) shared.pairs[number][own / call.topk] = static_cast<int16_t>(own);
  __syncthreads();
  return count;
}

// The stages of a block, in order: first those of gate and up, then those of the results. Items are
// columns of an expert, or of the results; each has the same number of steps, a stage each.
struct Steps {
  int item, step;     // where it is
  int items, steps;   // how many there are
  int number;         // of stages so far

  __device__ __forceinline__ bool there() const { return item < items; }
  __device__ __forceinline__ void next() {
    ++number;
    if (++step == steps) step = 0, item += gridDim.x;
  }
  __device__ __forceinline__ bool last() const { return step == steps - 1; }
};

__device__ __forceinline__ Steps first_steps(const Call& call, int count) {
  return {static_cast<int>(blockIdx.x), 0, count * (call.intermediate / kColumns),
          (call.hidden + kTerms - 1) / kTerms, 0};
}

// Of the second product. A short row: several experts in a stage, all their rows at once; a long one:
// several stages for an expert.
struct Down {
  int units;    // of a row in a stage
  int experts;  // of a stage
  int pieces;   // of a row
  __device__ __forceinline__ explicit Down(int intermediate)
      : units(min(kUnits, (intermediate + kUnit - 1) / kUnit)),
        experts(min(kWarp, kUnits / units)),
        pieces((intermediate + kTerms - 1) / kTerms) {}
  __device__ __forceinline__ Steps steps(const Call& call, int count, int number) const {
    const int steps = pieces > 1 ? count * pieces : (count + experts - 1) / experts;
    // Blocks with an item less of the first product have one more of these.
    return {static_cast<int>(gridDim.x - 1 - blockIdx.x), 0, call.hidden / kRows, steps, number};
  }
};

// A stage to be filled: waits until it is empty. All lanes of a warp.
__device__ __forceinline__ int stage_of(Shared& shared, int number) {
  const int stage = number % kStages;
  const int turn = number / kStages;
  if (turn > 0) wait(&shared.empty[stage], (turn - 1) & 1);
  return stage;
}

__device__ __forceinline__ void bring_rows(Shared& shared, int stage, const __nv_bfloat16* row,
                                           int terms) {
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) expect(&shared.full[stage], kRows * terms * 2);
  __syncwarp();
  if (lane < kRows) {
    bring(&shared.stages[stage][lane * kStride], row, terms * 2, &shared.full[stage]);
  }
}

__device__ __forceinline__ void bring_first(Shared& shared, const Call& call, const Steps& at) {
  const int stage = stage_of(shared, at.number);
  const int lane = threadIdx.x % kWarp;
  const int tiles = call.intermediate / kColumns;
  const int64_t expert = shared.experts[at.item / tiles];
  const int column = at.item % tiles * kColumns + lane % kColumns;
  const int half = lane / kColumns % 2 * call.intermediate;
  const int from = at.step * kTerms;
  const int64_t row = expert * 2 * call.intermediate + half + column;
  bring_rows(shared, stage, call.w13 + row * call.hidden + from, min(kTerms, call.hidden - from));
}

__device__ __forceinline__ void bring_second(Shared& shared, const Call& call, const Down& down,
                                             int count, const Steps& at) {
  const int stage = stage_of(shared, at.number);
  const int lane = threadIdx.x % kWarp;
  const int inner = call.intermediate;
  if (down.pieces > 1) {
    const int64_t expert = shared.experts[at.step / down.pieces];
    const int from = at.step % down.pieces * kTerms;
    const int64_t row = expert * call.hidden + at.item * kRows + lane % kRows;
    bring_rows(shared, stage, call.w2 + row * inner + from, min(kTerms, inner - from));
    return;
  }
  const int first = at.step * down.experts;
  const int experts = min(down.experts, count - first);
  const uint32_t bytes = kRows * inner * 2;
  if (lane == 0) expect(&shared.full[stage], experts * bytes);
  __syncwarp();
  if (lane < experts) {
    const int64_t row = static_cast<int64_t>(shared.experts[first + lane]) * call.hidden +
                        at.item * kRows;
    bring(&shared.stages[stage][lane * kRows * inner], call.w2 + row * inner, bytes,
          &shared.full[stage]);
  }
}

// Rows of tokens, or of what is activated, that a warp multiplies in a stage.
template <bool kBoth>
struct Values {
  uint4 low[kAhead];
  uint4 high[kBoth ? kAhead : 1];
};

template <bool kBoth>
__device__ __forceinline__ void load_first(Values<kBoth>& values, const Shared& shared,
                                           const Call& call, const Steps& at) {
  const int lane = threadIdx.x % kWarp;
  const int group = lane / 4;
  const int16_t* pairs = shared.pairs[at.item / (call.intermediate / kColumns)];
  const bool low = pairs[group] >= 0;
  const bool high = kBoth && pairs[group + 8] >= 0;
  const int from = at.step * kTerms + threadIdx.x / kWarp * kUnit + lane % 4 * kVector;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int term = from + i * kMultiplying * kUnit;
    const bool within = term < call.hidden;
    values.low[i] = load_or_zeros(low && within, call.x + group * call.hidden + term);
    if (kBoth) {
      values.high[i] = load_or_zeros(high && within, call.x + (group + 8) * call.hidden + term);
    }
  }
}

// Where a unit of the second product lies: its expert, and its first term of the row.
struct Place {
  int expert, term;
};

__device__ __forceinline__ Place place_of(const Down& down, const Steps& at, int i) {
  const int unit = threadIdx.x / kWarp + i * kMultiplying;
  const int term = unit % down.units * kUnit + threadIdx.x % 4 * kVector;
  if (down.pieces == 1) return {at.step * down.experts + unit / down.units, term};
  return {at.step / down.pieces, at.step % down.pieces * kTerms + term};
}

template <bool kBoth>
__device__ __forceinline__ void load_second(Values<kBoth>& values, const Shared& shared,
                                            const Call& call, const Down& down, int count,
                                            const Steps& at) {
  const int group = threadIdx.x % kWarp / 4;
  const int inner = call.intermediate;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const Place place = place_of(down, at, i);
    const bool within =
        place.expert < count && place.term < inner &&
        (down.pieces > 1 || threadIdx.x / kWarp + i * kMultiplying < down.units * down.experts);
    const int16_t* pairs = shared.pairs[within ? place.expert : 0];
    const int low = pairs[group];
    values.low[i] = load_or_zeros(within && low >= 0, call.activated + low * inner + place.term);
    if (kBoth) {
      const int high = pairs[group + 8];
      values.high[i] = load_or_zeros(within && high >= 0, call.activated + high * inner + place.term);
    }
  }
}

__device__ __forceinline__ void keep(float (&partial)[kMultiplying][kMostTokens][kRows],
                                     const float (&sums)[4], bool both) {
  const int lane = threadIdx.x % kWarp;
  float* row = &partial[threadIdx.x / kWarp][lane / 4][lane % 4 * 2];
  *reinterpret_cast<float2*>(row) = make_float2(sums[0], sums[1]);
  if (both) *reinterpret_cast<float2*>(row + 8 * kRows) = make_float2(sums[2], sums[3]);
}

__device__ __forceinline__ float added(
    const float (&partial)[kMultiplying][kMostTokens][kRows], int token, int row) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kMultiplying; ++i) sum += partial[i][token][row];
  return sum;
}

template <bool kBoth>
__device__ __forceinline__ void activate(Shared& shared, const Call& call, Steps at) {
  const int lane = threadIdx.x % kWarp;
  const int from = threadIdx.x / kWarp * kUnit + lane % 4 * kVector;
  const int tiles = call.intermediate / kColumns;
  float sums[4] = {};
  int turn = 0;
  const auto step = [&](const Values<kBoth>& values, Values<kBoth>& following) {
    Steps next = at;
    next.next();
    if (next.there()) load_first(following, shared, call, next);
    const int stage = at.number % kStages;
    wait(&shared.full[stage], at.number / kStages & 1);
    const int terms = call.hidden - at.step * kTerms;
    const __nv_bfloat16* row = &shared.stages[stage][lane / 4 * kStride];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int term = from + i * kMultiplying * kUnit;
      const uint4 by = load_or_zeros(term < terms, row + term);
      multiply(sums, values.low[i], kBoth ? values.high[i] : make_uint4(0, 0, 0, 0), by);
    }
    __syncwarp();
    if (lane == 0) arrive(&shared.empty[stage]);
    if (at.last()) {
      keep(shared.partial[turn], sums, kBoth);
      meet();
      const int token = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
      const int pair = token < call.tokens ? shared.pairs[at.item / tiles][token] : -1;
      if (pair >= 0) {
        const float gate = added(shared.partial[turn], token, column);
        const float up = added(shared.partial[turn], token, column + kColumns);
        const float h = gate / (1.0f + __expf(-gate)) * up;
        call.activated[pair * call.intermediate + at.item % tiles * kColumns + column] =
            __float2bfloat16_rn(h);
      }
      turn ^= 1;
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = 0.0f;
    }
    at = next;
  };
  // Values are loaded while those of the step before are multiplied, into registers of their own.
  Values<kBoth> even, odd;
  if (at.there()) load_first(even, shared, call, at);
  while (at.there()) {
    step(even, odd);
    if (at.there()) step(odd, even);
  }
}

template <bool kBoth>
__device__ __forceinline__ void multiply_second(float (&sums)[4], const Shared& shared,
                                                const Call& call, const Down& down, int count,
                                                const Steps& at, const Values<kBoth>& values) {
  const int group = threadIdx.x % kWarp / 4;
  const int stage = at.number % kStages;
  const int stride = down.pieces > 1 ? kStride : call.intermediate;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int unit = threadIdx.x / kWarp + i * kMultiplying;
    const Place place = place_of(down, at, i);
    if (unit >= down.units * down.experts || place.expert >= count) continue;
    const int within = unit / down.units;  // which expert of the stage
    const int term = unit % down.units * kUnit + threadIdx.x % 4 * kVector;
    const uint4 by = load_or_zeros(place.term < call.intermediate,
                                   &shared.stages[stage][(within * kRows + group) * stride + term]);
    float of_expert[4] = {};
    multiply(of_expert, values.low[i], kBoth ? values.high[i] : make_uint4(0, 0, 0, 0), by);
    const int low = shared.pairs[place.expert][group];
    const float low_weight = low >= 0 ? shared.weights[low] : 0.0f;
    sums[0] += low_weight * of_expert[0];
    sums[1] += low_weight * of_expert[1];
    if (kBoth) {
      const int high = shared.pairs[place.expert][group + 8];
      const float high_weight = high >= 0 ? shared.weights[high] : 0.0f;
      sums[2] += high_weight * of_expert[2];
      sums[3] += high_weight * of_expert[3];
    }
  }
}

template <bool kBoth>
__device__ __forceinline__ void combine(Shared& shared, const Call& call, const Down& down,
                                        int count, Steps at) {
  float sums[4] = {};
  int turn = 0;
  const auto step = [&](const Values<kBoth>& values, Values<kBoth>& following) {
    Steps next = at;
    next.next();
    if (next.there()) load_second(following, shared, call, down, count, next);
    const int stage = at.number % kStages;
    wait(&shared.full[stage], at.number / kStages & 1);
    multiply_second(sums, shared, call, down, count, at, values);
    __syncwarp();
    if (threadIdx.x % kWarp == 0) arrive(&shared.empty[stage]);
    if (at.last()) {
      keep(shared.partial[turn], sums, kBoth);
      meet();
      const int token = threadIdx.x / kRows, column = threadIdx.x % kRows;
      if (token < call.tokens) {
        call.out[token * call.hidden + at.item * kRows + column] =
            __float2bfloat16_rn(added(shared.partial[turn], token, column));
      }
      turn ^= 1;
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = 0.0f;
    }
    at = next;
  };
  Values<kBoth> even, odd;
  if (at.there()) load_second(even, shared, call, down, count, at);
  while (at.there()) {
    step(even, odd);
    if (at.there()) step(odd, even);
  }
}

// kBoth: whether there are more than eight tokens.
template <bool kBoth>
__global__ void __launch_bounds__(kThreads, 1) experts_kernel(Call call) {
  extern __shared__ __align__(128) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  const int count = find_experts(shared, call);
  const bool brings = threadIdx.x / kWarp == kMultiplying;
  const Down down(call.intermediate);
  Steps first = first_steps(call, count);
  const int mine = first.item < first.items
                       ? (first.items - 1 - first.item) / static_cast<int>(gridDim.x) + 1
                       : 0;
  Steps second = down.steps(call, count, mine * first.steps);
  if (brings) {
    for (; first.there(); first.next()) bring_first(shared, call, first);
    // Further stages become empty only after the grid has met.
    const int most = second.number + kStages;
    for (; second.there() && second.number < most; second.next()) {
      bring_second(shared, call, down, count, second);
    }
  } else {
    activate<kBoth>(shared, call, first);
  }
  cooperative_groups::this_grid().sync();
  if (brings) {
    for (; second.there(); second.next()) bring_second(shared, call, down, count, second);
  } else {
    combine<kBoth>(shared, call, down, count, second);
  }
}

template <bool kBoth>
cudaError_t launch(Call call, int experts, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status != cudaSuccess) return status;
  status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status != cudaSuccess) return status;
  status = cudaFuncSetAttribute(experts_kernel<kBoth>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(sizeof(Shared)));
  if (status != cudaSuccess) return status;
  const int distinct = min(experts, call.tokens * call.topk);
  // A block is worth some 64 kB of weights: small calls have few blocks to meet.
  const int64_t weights = int64_t{6} * distinct * call.intermediate * call.hidden;
  const int most = static_cast<int>(min(int64_t{multiprocessors}, weights / 65536 + 1));
  const int items = max(distinct * (call.intermediate / kColumns), call.hidden / kRows);
  void* arguments[] = {&call};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(experts_kernel<kBoth>),
                                     dim3(static_cast<unsigned>(min(items, most))),
                                     dim3(kThreads), arguments, sizeof(Shared), stream);
}

}  // namespace

extern "C" cudaError_t moe_experts_small(void* out, const void* hidden_states, const void* w13,
                                         const void* w2, const void* topk_weights,
                                         const void* topk_ids, void* activated, void*,
                                         int64_t tokens, int64_t hidden, int64_t intermediate,
                                         int64_t experts, int64_t topk, int dtype,
                                         cudaStream_t stream) {
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
                  static_cast<int>(topk)};
  return tokens > 8 ? launch<true>(call, static_cast<int>(experts), stream)
                    : launch<false>(call, static_cast<int>(experts), stream);
}
