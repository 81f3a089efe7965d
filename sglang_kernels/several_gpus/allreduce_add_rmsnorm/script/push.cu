// One kernel without any barrier between ranks: each thread sends its vector to all peers, every
// word beside the number of the call in one 64-bit store, and waits for the peers' words with that
// number in its own rank's memory. A word and its number arrive together, so nothing needs to be
// ordered: 64-bit accesses are single ones in PTX, and relaxed at the scope of the system. This
// doubles the bytes and saves the round trip of a flag behind the data: good for few tokens.
//
// There are two places. A peer sends the words of call c + 2 to the place of call c only after all
// of its words of call c + 1 arrived, which this rank sends when it has read those of call c.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kVector = 8;
constexpr int kMostRanks = 4;
constexpr int kMostBlocks = 64;
constexpr int kMostRow = 8192;

// A block's part of a rank's state. Blocks of one number have made as many calls on every rank,
// whatever the shapes of the calls were.
struct alignas(64) Counter {
  uint32_t calls;  // calls that this rank's block has made
};

// A vector: its four words, each in the lower half, beside the call's number.
struct alignas(16) Sent {
  uint64_t word[4];
};

struct State {
  Counter counters[kMostBlocks];
  Sent rows[kMostBlocks][2][kMostRanks][kMostRow / kVector];  // by the rank that sent them
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

template <int kRanks>
__device__ __forceinline__ void reduce_and_norm(const Call& call) {
  const int vector = threadIdx.x;
  const bool used = vector < call.vectors;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * call.vectors + vector;
  State* own = reinterpret_cast<State*>(call.state[call.rank]);
  Counter& counter = own->counters[blockIdx.x];
  const uint32_t number = counter.calls + 1;
  const int place = number % 2;

  float sums[kVector] = {};
  uint4 weight{};
  if (used) {
    const uint4 mine = reinterpret_cast<const uint4*>(call.inputs[call.rank])[at];
#pragma unroll
    for (int step = 1; step < kRanks; ++step) {
      State* peer = reinterpret_cast<State*>(call.state[(call.rank + step) % kRanks]);
      Sent& sent = peer->rows[blockIdx.x][place][call.rank][vector];
      send(&sent.word[0], mine.x, mine.y, number);
      send(&sent.word[2], mine.z, mine.w, number);
    }
    const uint4 before = reinterpret_cast<const uint4*>(call.residual)[at];
    weight = reinterpret_cast<const uint4*>(call.weight)[vector];
    uint4 rows[kRanks];
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      rows[rank] = mine;
      if (rank == call.rank) continue;
      const Sent& sent = own->rows[blockIdx.x][place][rank][vector];
      receive(&sent.word[0], rows[rank].x, rows[rank].y, number);
      receive(&sent.word[2], rows[rank].z, rows[rank].w, number);
    }
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) add(sums, rows[rank]);
    add(sums, before);
    reinterpret_cast<uint4*>(call.residual)[at] = rounded(sums);
  }
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) squares += sums[i] * sums[i];
  const float mean = block_sum(squares) / static_cast<float>(call.vectors * kVector);
  const float scale = rsqrtf(mean + call.eps);
  if (used) {
    float weights[kVector] = {};
    add(weights, weight);
#pragma unroll
    for (int i = 0; i < kVector; ++i) sums[i] *= scale * weights[i];
    reinterpret_cast<uint4*>(call.out)[at] = rounded(sums);
  }
  if (threadIdx.x == 0) counter.calls = number;
}

template <int kRanks>
__global__ void __launch_bounds__(kMostRow / kVector) allreduce_kernel(const Call call) {
  reduce_and_norm<kRanks>(call);
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
  const auto kernel = ranks == 2 ? allreduce_kernel<2> : allreduce_kernel<4>;
  kernel<<<static_cast<unsigned>(tokens), threads, 0, stream>>>(call);
  return cudaGetLastError();
}
