// Experts of a few tokens, by the length of their rows. Long rows: three plain launches, gate and
// up with SiLU, down, and the weighted sum; a warp takes a column of one token and one of its
// experts. Short rows: one cooperative launch that reads the weights of an expert once. A warp of
// each block brings them by bulk copies into a ring of stages and never waits for results, so the
// ring fills with weights of the second product while the grid meets. The other warps multiply, by
// tensor cores, the rows of all tokens, zeros for those that did not choose the expert, by eight
// rows of weights: four columns of gate and the same four of up, then eight columns of the results
// for all experts. Operands agree in which terms a thread holds: eight neighbours. Sums keep a
// fixed order.

#include <cooperative_groups.h>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kVector = 8;       // of bfloat16 in 16 bytes
constexpr int kShort = 256;      // terms of a row of w2, at most: the ring
constexpr int kPlain = 4;        // warps of a block of the plain launches
constexpr int kRows = 8;         // of weights in a product of the ring
constexpr int kColumns = 4;      // of gate, and of up, in a product
constexpr int kUnit = 32;        // terms that a warp takes at a time: four threads a row
constexpr int kAhead = 4;        // units of a warp in a stage
constexpr int kMostTokens = 16;
constexpr int kMostPairs = 128;
constexpr int kWords = 16;       // bits of 512 experts

struct Call {
  __nv_bfloat16* out;
  const __nv_bfloat16* x;
  const __nv_bfloat16* w13;
  const __nv_bfloat16* w2;
  const float* weights;
  const int* ids;
  __nv_bfloat16* activated;
  float* parts;
  int tokens, hidden, intermediate, topk;
};

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// A row of weights times a row of values, in all lanes of a warp.
__device__ __forceinline__ float product(const __nv_bfloat16* weights, const __nv_bfloat16* row,
                                         int length) {
  float sum = 0.0f;
  for (int at = threadIdx.x % kWarp * kVector; at < length; at += kWarp * kVector) {
    float by[kVector], values[kVector];
    to_floats(*reinterpret_cast<const uint4*>(weights + at), by);
    to_floats(*reinterpret_cast<const uint4*>(row + at), values);
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum += by[i] * values[i];
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  return sum;
}

__global__ void __launch_bounds__(kPlain* kWarp) activate_kernel(const Call call) {
  const int column = blockIdx.x * kPlain + threadIdx.x / kWarp;
  if (column >= call.intermediate) return;
  const int pair = blockIdx.y;  // a token and one of its experts
  const int hidden = call.hidden, inner = call.intermediate;
  const __nv_bfloat16* row = call.x + pair / call.topk * hidden;
  const __nv_bfloat16* gates = call.w13 + static_cast<int64_t>(call.ids[pair]) * 2 * inner * hidden;
  const __nv_bfloat16* ups = gates + static_cast<int64_t>(inner) * hidden;
  const float gate = product(gates + column * hidden, row, hidden);
  const float up = product(ups + column * hidden, row, hidden);
  if (threadIdx.x % kWarp == 0) {
    const float act = gate / (1.0f + __expf(-gate));
    call.activated[pair * inner + column] = __float2bfloat16_rn(act * up);
  }
}

__global__ void __launch_bounds__(kPlain* kWarp) down_kernel(const Call call) {
  const int column = blockIdx.x * kPlain + threadIdx.x / kWarp;
  if (column >= call.hidden) return;
  const int pair = blockIdx.y;
  const int inner = call.intermediate;
  const __nv_bfloat16* weights =
      call.w2 + (static_cast<int64_t>(call.ids[pair]) * call.hidden + column) * inner;
  const float sum = product(weights, call.activated + pair * inner, inner);
  if (threadIdx.x % kWarp == 0) call.parts[pair * call.hidden + column] = sum;
}

__global__ void __launch_bounds__(kPlain* kWarp) sum_kernel(const Call call) {
  const int column = blockIdx.x * kPlain * kWarp + threadIdx.x;
  if (column >= call.hidden) return;
  float sum = 0.0f;
  for (int place = 0; place < call.topk; ++place) {
    const int pair = blockIdx.y * call.topk + place;
    sum += call.weights[pair] * call.parts[pair * call.hidden + column];
  }
  call.out[blockIdx.y * call.hidden + column] = __float2bfloat16_rn(sum);
}

dim3 grid_of(int columns, int each, int rows) {
  return dim3(static_cast<unsigned>((columns + each - 1) / each), static_cast<unsigned>(rows));
}

cudaError_t launch_plain(const Call& call, cudaStream_t stream) {
  const int pairs = call.tokens * call.topk, threads = kPlain * kWarp;
  activate_kernel<<<grid_of(call.intermediate, kPlain, pairs), threads, 0, stream>>>(call);
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  down_kernel<<<grid_of(call.hidden, kPlain, pairs), threads, 0, stream>>>(call);
  status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  sum_kernel<<<grid_of(call.hidden, threads, call.tokens), threads, 0, stream>>>(call);
  return cudaGetLastError();
}

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

// The stages of a block, in order. Items are columns of an expert, or of the results; each has the
// same number of steps, a stage each.
struct Steps {
  int item, step;    // where it is
  int items, steps;  // how many there are
  int number;        // of stages so far

  __device__ __forceinline__ bool there() const { return item < items; }
  __device__ __forceinline__ void next() {
    ++number;
    if (++step == steps) step = 0, item += gridDim.x;
  }
};

// Where a unit of a warp lies: the number of its expert, its first term, and whether there is any.
struct Place {
  int expert, term;
  bool there;
};

// kWarps multiply; kBoth: whether there are more than eight tokens.
template <int kWarps, int kStages, bool kBoth>
struct Ring {
  static constexpr int kThreads = (kWarps + 1) * kWarp;
  static constexpr int kUnits = kAhead * kWarps;
  static constexpr int kTerms = kUnits * kUnit;  // of a row in a stage
  static constexpr int kStride = kTerms + 32;    // of rows that are copied one by one: no conflicts

  struct Shared {
    __nv_bfloat16 stages[kStages][kRows * kStride];
    float partial[2][kWarps][kMostTokens][kRows];
    uint64_t full[kStages], empty[kStages];
    float weights[kMostPairs];
    int experts[kMostPairs];                 // the distinct ones, in ascending order
    int16_t pairs[kMostPairs][kMostTokens];  // where a token chose an expert, or -1
    uint32_t chosen[kWords];
  };

  // Rows of tokens, or of what is activated, that a warp multiplies in a stage.
  struct Values {
    uint4 low[kAhead];
    uint4 high[kBoth ? kAhead : 1];
  };

  Shared& shared;
  const Call& call;
  int count;    // of distinct experts
  int tiles;    // of an expert's columns
  int units;    // of a row of w2
  int experts;  // of a stage of w2

  __device__ __forceinline__ Ring(Shared& memory, const Call& of)
      : shared(memory),
        call(of),
        tiles(of.intermediate / kColumns),
        units((of.intermediate + kUnit - 1) / kUnit),
        experts(min(kWarp, kUnits / units)) {
    find_experts();
  }

  __device__ __forceinline__ void find_experts() {
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
      set_up(&shared.empty[own], kWarps);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const uint32_t bit = 1u << (id & 31);
    bool first = false;
    if (own < pairs) first = (atomicOr(&shared.chosen[id / 32], bit) & bit) == 0;
    __syncthreads();
    int number = 0;
    count = 0;
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
  }

  // A stage of gate and up, or of w2, whose rows of eight results are together: a whole warp.
  template <bool kSecond>
  __device__ __forceinline__ void bring_stage(const Steps& at) {
    const int stage = at.number % kStages, turn = at.number / kStages;
    if (turn > 0) wait(&shared.empty[stage], (turn - 1) & 1);
    const int lane = threadIdx.x % kWarp;
    const int inner = call.intermediate;
    const int from = kSecond ? at.step * experts : at.step * kTerms;
    const int copies = kSecond ? min(experts, count - from) : kRows;
    const uint32_t bytes = 2 * (kSecond ? kRows * inner : min(kTerms, call.hidden - from));
    if (lane == 0) expect(&shared.full[stage], copies * bytes);
    __syncwarp();
    if (lane >= copies) return;
    const int64_t expert = shared.experts[kSecond ? from + lane : at.item / tiles];
    const __nv_bfloat16* row;
    if (kSecond) {
      row = call.w2 + (expert * call.hidden + at.item * kRows) * inner;
    } else {
      const int column = at.item % tiles * kColumns + lane % kColumns;
      row = call.w13 + (expert * 2 * inner + lane / kColumns * inner + column) * call.hidden + from;
    }
    bring(&shared.stages[stage][lane * (kSecond ? kRows * inner : kStride)], row, bytes,
          &shared.full[stage]);
  }

  template <bool kSecond>
  __device__ __forceinline__ Place place_of(const Steps& at, int i) const {
    const int unit = threadIdx.x / kWarp + i * kWarps;
    const int within = threadIdx.x % 4 * kVector;
    if (!kSecond) {
      const int term = at.step * kTerms + unit * kUnit + within;
      return {at.item / tiles, term, term < call.hidden};
    }
    const int expert = at.step * experts + unit / units;
    const int term = unit % units * kUnit + within;
    return {expert, term, unit < units * experts && expert < count && term < call.intermediate};
  }

  template <bool kSecond>
  __device__ __forceinline__ uint4 row_of(const Place& place, int token) const {
    const int pair = shared.pairs[kSecond && !place.there ? 0 : place.expert][token];
    const bool there = place.there && pair >= 0;
    if (!kSecond) return load_or_zeros(there, call.x + token * call.hidden + place.term);
    return load_or_zeros(there, call.activated + pair * call.intermediate + place.term);
  }

  template <bool kSecond>
  __device__ __forceinline__ void load(Values& values, const Steps& at) const {
    const int group = threadIdx.x % kWarp / 4;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const Place place = place_of<kSecond>(at, i);
      values.low[i] = row_of<kSecond>(place, group);
      if (kBoth) values.high[i] = row_of<kSecond>(place, group + 8);
    }
  }

  template <bool kSecond>
  __device__ __forceinline__ void multiply_stage(float (&sums)[4], const Values& values,
                                                 const Steps& at) const {
    const int group = threadIdx.x % kWarp / 4;
    const __nv_bfloat16* stage = shared.stages[at.number % kStages];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const Place place = place_of<kSecond>(at, i);
      const uint4 high = kBoth ? values.high[kBoth ? i : 0] : make_uint4(0, 0, 0, 0);
      if (!kSecond) {
        const __nv_bfloat16* row = stage + group * kStride - at.step * kTerms;
        multiply(sums, values.low[i], high, load_or_zeros(place.there, row + place.term));
        continue;
      }
      const int unit = threadIdx.x / kWarp + i * kWarps;
      if (unit >= units * experts || place.expert >= count) continue;  // the whole warp
      const int row = (place.expert - at.step * experts) * kRows + group;
      float of_expert[4] = {};
      multiply(of_expert, values.low[i], high,
               load_or_zeros(place.there, stage + row * call.intermediate + place.term));
#pragma unroll
      for (int half = 0; half < (kBoth ? 2 : 1); ++half) {
        const int pair = shared.pairs[place.expert][group + half * 8];
        const float weight = pair >= 0 ? shared.weights[pair] : 0.0f;
        sums[2 * half] += weight * of_expert[2 * half];
        sums[2 * half + 1] += weight * of_expert[2 * half + 1];
      }
    }
  }

  __device__ __forceinline__ float added(int turn, int token, int row) const {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += shared.partial[turn][i][token][row];
    return sum;
  }

  // Adds the sums of all warps and stores what they are of.
  template <bool kSecond>
  __device__ __forceinline__ void store(const float (&sums)[4], int turn, int item) const {
    const int lane = threadIdx.x % kWarp;
    float* row = &shared.partial[turn][threadIdx.x / kWarp][lane / 4][lane % 4 * 2];
    *reinterpret_cast<float2*>(row) = make_float2(sums[0], sums[1]);
    if (kBoth) *reinterpret_cast<float2*>(row + 8 * kRows) = make_float2(sums[2], sums[3]);
    asm volatile("bar.sync 1, %0;" ::"n"(kWarps * kWarp) : "memory");
    constexpr int kEach = kSecond ? kRows : kColumns;
    const int token = threadIdx.x / kEach, column = threadIdx.x % kEach;
    if (token >= call.tokens) return;
    if (kSecond) {
      call.out[token * call.hidden + item * kRows + column] =
          __float2bfloat16_rn(added(turn, token, column));
      return;
    }
    const int pair = shared.pairs[item / tiles][token];
    if (pair < 0) return;
    const float gate = added(turn, token, column);
    const float up = added(turn, token, column + kColumns);
    const float h = gate / (1.0f + __expf(-gate)) * up;
    call.activated[pair * call.intermediate + item % tiles * kColumns + column] =
        __float2bfloat16_rn(h);
  }

  template <bool kSecond>
  __device__ __forceinline__ void multiply_all(Steps at) const {
    float sums[4] = {};
    int turn = 0;
    const auto step = [&](const Values& values, Values& following) {
      Steps next = at;
      next.next();
      if (next.there()) load<kSecond>(following, next);
      const int stage = at.number % kStages;
      wait(&shared.full[stage], at.number / kStages & 1);
      multiply_stage<kSecond>(sums, values, at);
      __syncwarp();
      if (threadIdx.x % kWarp == 0) arrive(&shared.empty[stage]);
      if (at.step == at.steps - 1) {
        store<kSecond>(sums, turn, at.item);
        turn ^= 1;
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = 0.0f;
      }
      at = next;
    };
    // Values are loaded while those of the step before are multiplied, into registers of their own.
    Values even, odd;
    if (at.there()) load<kSecond>(even, at);
    while (at.there()) {
      step(even, odd);
      if (at.there()) step(odd, even);
    }
  }

  __device__ __forceinline__ void run() {
    const int grid = gridDim.x, block = blockIdx.x;
    const bool brings = threadIdx.x / kWarp == kWarps;
    Steps first{block, 0, count * tiles, (call.hidden + kTerms - 1) / kTerms, 0};
    const int mine = block < first.items ? (first.items - 1 - block) / grid + 1 : 0;
    // Blocks with an item less of the first product have one more of the second.
    Steps second{grid - 1 - block, 0, call.hidden / kRows, (count + experts - 1) / experts,
                 mine * first.steps};
    if (brings) {
      for (; first.there(); first.next()) bring_stage<false>(first);
      // Further stages become empty only after the grid has met.
      const int most = second.number + kStages;
      for (; second.there() && second.number < most; second.next()) bring_stage<true>(second);
    } else {
      multiply_all<false>(first);
    }
    cooperative_groups::this_grid().sync();
    if (brings) {
      for (; second.there(); second.next()) bring_stage<true>(second);
    } else {
      multiply_all<true>(second);
    }
  }
};

template <int kWarps, int kStages, bool kBoth>
__global__ void __launch_bounds__((kWarps + 1) * kWarp, 1) ring_kernel(const Call call) {
  extern __shared__ __align__(128) unsigned char bytes[];
  using Own = Ring<kWarps, kStages, kBoth>;
  Own(*reinterpret_cast<typename Own::Shared*>(bytes), call).run();
}

template <int kWarps, int kStages, bool kBoth>
cudaError_t launch_ring(Call call, int experts, cudaStream_t stream) {
  using Own = Ring<kWarps, kStages, kBoth>;
  const auto kernel = ring_kernel<kWarps, kStages, kBoth>;
  int device = 0, multiprocessors = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status != cudaSuccess) return status;
  status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (status != cudaSuccess) return status;
  constexpr size_t kBytes = sizeof(typename Own::Shared);
  status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(kBytes));
  if (status != cudaSuccess) return status;
  const int distinct = min(experts, call.tokens * call.topk);
  // A block is worth some 64 kB of weights: small calls have few blocks to meet.
  const int64_t weights = int64_t{6} * distinct * call.intermediate * call.hidden;
  const int most = static_cast<int>(min(int64_t{multiprocessors}, weights / 65536 + 1));
  const int items = max(distinct * (call.intermediate / kColumns), call.hidden / kRows);
  void* arguments[] = {&call};
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel),
                                     dim3(static_cast<unsigned>(min(items, most))),
                                     dim3(Own::kThreads), arguments, kBytes, stream);
}

}  // namespace

extern "C" cudaError_t moe_experts_small(void* out, const void* hidden_states, const void* w13,
                                         const void* w2, const void* topk_weights,
                                         const void* topk_ids, void* activated, void* parts,
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
                  static_cast<float*>(parts),
                  static_cast<int>(tokens),
                  static_cast<int>(hidden),
                  static_cast<int>(intermediate),
                  static_cast<int>(topk)};
  const int all = static_cast<int>(experts);
  if (call.intermediate > kShort) return launch_plain(call, stream);
  if (call.tokens > 8) return launch_ring<16, 5, true>(call, all, stream);
  // One token and very short rows: eight warps are faster.
  const bool few = call.tokens == 1 && call.intermediate <= 128;
  return few ? launch_ring<8, 6, false>(call, all, stream)
             : launch_ring<16, 5, false>(call, all, stream);
}
