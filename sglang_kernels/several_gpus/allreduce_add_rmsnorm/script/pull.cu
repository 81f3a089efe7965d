// One kernel, one barrier: each block stores its row into this rank's own state, says so to its
// peers, and reads their rows from theirs. The copy is what makes a second barrier needless: it has
// two places, and a rank fills a place again only after its peers have said that they are in the
// call between. A thread keeps its vector in registers from the first load to the last store.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kVector = 8;
constexpr int kMostRanks = 4;
constexpr int kMostBlocks = 64;
constexpr int kMostRow = 8192;

// A block's part of a rank's state. A block waits only for the blocks with its number on the other
// ranks, and those have made as many calls, whatever the shapes of the calls were.
struct alignas(64) Signals {
  uint32_t calls;                // calls that this rank's block has made
  uint32_t started[kMostRanks];  // by rank: the last call whose row its block has stored
};

struct State {
  Signals signals[kMostBlocks];
  uint4 rows[kMostBlocks][2][kMostRow / kVector];
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
  Signals& signals = own->signals[blockIdx.x];
  const uint32_t number = signals.calls + 1;
  const int place = number % 2;

  uint4 mine{}, before{}, weight{};
  if (used) {
    mine = reinterpret_cast<const uint4*>(call.inputs[call.rank])[at];
    own->rows[blockIdx.x][place][vector] = mine;
  }
  __syncthreads();
  if (threadIdx.x < kRanks) {
    State* peer = reinterpret_cast<State*>(call.state[threadIdx.x]);
    store_release(&peer->signals[blockIdx.x].started[call.rank], number);
  }
  if (used) {
    before = reinterpret_cast<const uint4*>(call.residual)[at];
    weight = reinterpret_cast<const uint4*>(call.weight)[vector];
  }
  if (threadIdx.x < kRanks) {
    while (static_cast<int32_t>(load_acquire(&signals.started[threadIdx.x]) - number) < 0) {
    }
  }
  __syncthreads();

  float sums[kVector] = {};
  if (used) {
    uint4 rows[kRanks];
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      const State* peer = reinterpret_cast<const State*>(call.state[rank]);
      rows[rank] = rank == call.rank ? mine : peer->rows[blockIdx.x][place][vector];
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
  if (threadIdx.x == 0) signals.calls = number;
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
