// One of three protocols by the size of a call, the same on all ranks. Few numbers: every word is
// pushed beside the call's number in one 64-bit store, so nothing has to be ordered. More: a row is
// copied into one of two places of this rank's state, one flag says so, peers pull it. Four ranks
// and many rows: two shots; a row has an owner, which pulls it from all ranks, adds, normalises, and
// pushes both results to its peers (reduce-scatter, then all-gather): fewer bytes over the links.
//
// Each protocol has its own part of the state and its own count of calls. Which one a call takes
// follows from its shape, so blocks of one number count alike on every rank.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kVector = 8;
constexpr int kMostRanks = 4;
constexpr int kMostBlocks = 64;
constexpr int kMostVectors = 8192 / kVector;
constexpr int64_t kMostPushed = 32768;  // numbers of a call
constexpr int kPushBlocks = 8;          // of at least 4096 numbers each
constexpr int64_t kLeastTwoShots = 131072;

// A block's part of a rank's state.
struct alignas(64) Signals {
  uint32_t calls;                // calls that this rank's block has made
  uint32_t started[kMostRanks];  // by rank: the last call in which its block was ready
  uint32_t finished;             // the last call whose results the row's owner has sent
};

// A vector: its four words, each in the lower half, beside the call's number.
struct alignas(16) Sent {
  uint64_t word[4];
};

struct State {
  Signals pushes[kPushBlocks];
  Signals pulls[kMostBlocks];
  Signals shots[kMostBlocks];
  Sent sent[kPushBlocks][2][kMostRanks][kMostVectors];  // by the rank that sent them
  uint4 rows[kMostBlocks][2][kMostVectors];
  uint4 results[kMostBlocks][2][kMostVectors];  // residual and out of a row, from its owner
};

struct Call {
  const int64_t* inputs;
  const int64_t* state;
  __nv_bfloat16* residual;
  const __nv_bfloat16* weight;
  __nv_bfloat16* out;
  int vectors;  // of a row
  int rank;
  float eps;
};

__device__ __forceinline__ void store_release(uint32_t* address, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire(const uint32_t* address) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__device__ __forceinline__ void send(uint64_t* address, uint32_t low, uint32_t high,
                                     uint32_t number) {
  const uint64_t mark = static_cast<uint64_t>(number) << 32;
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(mark | low),
               "l"(mark | high)
               : "memory");
}

__device__ __forceinline__ void receive(const uint64_t* address, uint32_t& low, uint32_t& high,
                                        uint32_t number) {
  uint64_t first, second;
  do {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(first), "=l"(second)
                 : "l"(address)
                 : "memory");
  } while (static_cast<uint32_t>(first >> 32) != number ||
           static_cast<uint32_t>(second >> 32) != number);
  low = static_cast<uint32_t>(first);
  high = static_cast<uint32_t>(second);
}

__device__ __forceinline__ void add(float (&sums)[kVector], const uint4& words) {
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&words);
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    const float2 pair = __bfloat1622float2(pairs[i]);
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}

__device__ __forceinline__ uint4 rounded(const float (&values)[kVector]) {
  uint4 words;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&words);
#pragma unroll
  for (int i = 0; i < kVector / 2; ++i) {
    pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
  }
  return words;
}

__device__ __forceinline__ float block_sum(float value) {
  __shared__ float warp_sums[kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = threadIdx.x % kWarp < blockDim.x / kWarp ? warp_sums[threadIdx.x % kWarp] : 0.0f;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

__device__ __forceinline__ State* state_of(const Call& call, int rank) {
  return reinterpret_cast<State*>(call.state[rank]);
}

__device__ __forceinline__ uint4 input_of(const Call& call, int rank, int64_t at) {
  return reinterpret_cast<const uint4*>(call.inputs[rank])[at];
}

__device__ __forceinline__ void wait_for(const uint32_t* flag, uint32_t number) {
  while (static_cast<int32_t>(load_acquire(flag) - number) < 0) {
  }
}

// Adds the rows of all ranks in their order, then the residual; normalises the sum.
template <int kRanks>
__device__ __forceinline__ void reduce_and_norm(const Call& call, const uint4 (&rows)[kRanks],
                                                const uint4& before, const uint4& weight,
                                                uint4& residual, uint4& out) {
  float sums[kVector] = {};
#pragma unroll
  for (int rank = 0; rank < kRanks; ++rank) add(sums, rows[rank]);
  add(sums, before);
  residual = rounded(sums);
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) squares += sums[i] * sums[i];
  const float mean = block_sum(squares) / static_cast<float>(call.vectors * kVector);
  const float scale = rsqrtf(mean + call.eps);
  float weights[kVector] = {};
  add(weights, weight);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums[i] *= scale * weights[i];
  out = rounded(sums);
}

template <int kRanks>
__device__ __forceinline__ void push_rows(const Call& call, uint4 (&rows)[kRanks], int64_t at) {
  const int vector = threadIdx.x;
  State* own = state_of(call, call.rank);
  const uint32_t number = own->pushes[blockIdx.x].calls + 1;
  const int place = number % 2;
  const uint4 mine = input_of(call, call.rank, at);
#pragma unroll
  for (int step = 1; step < kRanks; ++step) {
    State* peer = state_of(call, (call.rank + step) % kRanks);
    Sent& sent = peer->sent[blockIdx.x][place][call.rank][vector];
    send(&sent.word[0], mine.x, mine.y, number);
    send(&sent.word[2], mine.z, mine.w, number);
  }
#pragma unroll
  for (int rank = 0; rank < kRanks; ++rank) {
    rows[rank] = mine;
    if (rank == call.rank) continue;
    const Sent& sent = own->sent[blockIdx.x][place][rank][vector];
    receive(&sent.word[0], rows[rank].x, rows[rank].y, number);
    receive(&sent.word[2], rows[rank].z, rows[rank].w, number);
  }
}

template <int kRanks>
__global__ void __launch_bounds__(kMostVectors) push_kernel(const Call call) {
  const int vector = threadIdx.x;
  const bool used = vector < call.vectors;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.vectors + vector;
  uint4 rows[kRanks] = {}, before{}, weight{}, residual, out;
  if (used) {
    before = reinterpret_cast<const uint4*>(call.residual)[at];
    weight = reinterpret_cast<const uint4*>(call.weight)[vector];
    push_rows<kRanks>(call, rows, at);
  }
  reduce_and_norm<kRanks>(call, rows, before, weight, residual, out);
  if (used) {
    reinterpret_cast<uint4*>(call.residual)[at] = residual;
    reinterpret_cast<uint4*>(call.out)[at] = out;
  }
  // All threads have read the number: block_sum has a barrier.
  if (threadIdx.x == 0) ++state_of(call, call.rank)->pushes[blockIdx.x].calls;
}

template <int kRanks>
__global__ void __launch_bounds__(kMostVectors) pull_kernel(const Call call) {
  const int vector = threadIdx.x;
  const bool used = vector < call.vectors;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.vectors + vector;
  State* own = state_of(call, call.rank);
  Signals& signals = own->pulls[blockIdx.x];
  const uint32_t number = signals.calls + 1;
  const int place = number % 2;
  uint4 rows[kRanks] = {}, mine{}, before{}, weight{}, residual, out;
  if (used) {
    mine = input_of(call, call.rank, at);
    own->rows[blockIdx.x][place][vector] = mine;
  }
  __syncthreads();
  if (threadIdx.x < kRanks) {
    State* peer = state_of(call, threadIdx.x);
    store_release(&peer->pulls[blockIdx.x].started[call.rank], number);
  }
  if (used) {
    before = reinterpret_cast<const uint4*>(call.residual)[at];
    weight = reinterpret_cast<const uint4*>(call.weight)[vector];
  }
  if (threadIdx.x < kRanks) wait_for(&signals.started[threadIdx.x], number);
  __syncthreads();
  if (used) {
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      const State* peer = state_of(call, rank);
      rows[rank] = rank == call.rank ? mine : peer->rows[blockIdx.x][place][vector];
    }
  }
  reduce_and_norm<kRanks>(call, rows, before, weight, residual, out);
  if (used) {
    reinterpret_cast<uint4*>(call.residual)[at] = residual;
    reinterpret_cast<uint4*>(call.out)[at] = out;
  }
  if (threadIdx.x == 0) signals.calls = number;
}

// The owner of a row reads inputs of peers, which wait for its results and so keep their inputs.
// It writes into a peer's state only when that peer has begun this call, so has read the last.
template <int kRanks>
__global__ void __launch_bounds__(kMostVectors) two_shot_kernel(const Call call) {
  const int vector = threadIdx.x;
  const bool used = vector < call.vectors;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.vectors + vector;
  const int owner = blockIdx.x % kRanks;
  State* own = state_of(call, call.rank);
  Signals& signals = own->shots[blockIdx.x];
  const uint32_t number = signals.calls + 1;
  uint4 residual{}, out{};
  if (threadIdx.x == 0) {
    store_release(&state_of(call, owner)->shots[blockIdx.x].started[call.rank], number);
  }
  if (owner == call.rank) {
    uint4 rows[kRanks] = {}, before{}, weight{};
    if (used) {
      before = reinterpret_cast<const uint4*>(call.residual)[at];
      weight = reinterpret_cast<const uint4*>(call.weight)[vector];
    }
    if (threadIdx.x < kRanks) wait_for(&signals.started[threadIdx.x], number);
    __syncthreads();
    if (used) {
#pragma unroll
      for (int rank = 0; rank < kRanks; ++rank) rows[rank] = input_of(call, rank, at);
    }
    reduce_and_norm<kRanks>(call, rows, before, weight, residual, out);
    if (used) {
#pragma unroll
      for (int step = 1; step < kRanks; ++step) {
        State* peer = state_of(call, (call.rank + step) % kRanks);
        peer->results[blockIdx.x][0][vector] = residual;
        peer->results[blockIdx.x][1][vector] = out;
      }
    }
    __syncthreads();
    if (threadIdx.x < kRanks && threadIdx.x != static_cast<unsigned>(call.rank)) {
      store_release(&state_of(call, threadIdx.x)->shots[blockIdx.x].finished, number);
    }
  } else {
    if (threadIdx.x == 0) wait_for(&signals.finished, number);
    __syncthreads();
    if (used) {
      residual = own->results[blockIdx.x][0][vector];
      out = own->results[blockIdx.x][1][vector];
    }
  }
  if (used) {
    reinterpret_cast<uint4*>(call.residual)[at] = residual;
    reinterpret_cast<uint4*>(call.out)[at] = out;
  }
  if (threadIdx.x == 0) signals.calls = number;
}

using Kernel = void (*)(Call);

template <int kRanks>
Kernel kernel_for(int64_t tokens, int64_t h) {
  const int64_t numbers = tokens * h;
  if (numbers <= kMostPushed) return push_kernel<kRanks>;
  if (kRanks == 4 && numbers >= kLeastTwoShots) return two_shot_kernel<4>;
  return pull_kernel<kRanks>;
}

}  // namespace

extern "C" cudaError_t allreduce_add_rmsnorm(const void* inputs, const void* state, void* residual,
                                             const void* weight, void* out, int64_t tokens,
                                             int64_t h, int64_t ranks, int64_t rank, float eps,
                                             cudaStream_t stream) {
  const Call call = {static_cast<const int64_t*>(inputs),
                     static_cast<const int64_t*>(state),
                     static_cast<__nv_bfloat16*>(residual),
                     static_cast<const __nv_bfloat16*>(weight),
                     static_cast<__nv_bfloat16*>(out),
                     static_cast<int>(h) / kVector,
                     static_cast<int>(rank),
                     eps};
  const int threads = (call.vectors + kWarp - 1) / kWarp * kWarp;
  const Kernel kernel = ranks == 2 ? kernel_for<2>(tokens, h) : kernel_for<4>(tokens, h);
  kernel<<<static_cast<unsigned>(tokens), threads, 0, stream>>>(call);
  return cudaGetLastError();
}
