// The baseline: between two barriers of flags, one block a row reads that row of every rank, adds
// it up in the order of the ranks, and normalises. The first barrier says that all inputs are
// there, the second that nobody reads them any more.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kMostRanks = 4;
constexpr int kMostRow = 8192;

// A block's part of a rank's state. A block waits only for the blocks with its number on the other
// ranks, and those have passed as many barriers, whatever the shapes of the calls were.
struct alignas(64) Signals {
  uint32_t passed;               // barriers that this rank's block has passed
  uint32_t reached[kMostRanks];  // by rank: the last barrier that its block reached
};

struct Call {
  const int64_t* inputs;
  const int64_t* state;
  __nv_bfloat16* residual;
  const __nv_bfloat16* weight;
  __nv_bfloat16* out;
  int h;
  int ranks;
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

__device__ __forceinline__ Signals* signals_of(const Call& call, int rank) {
  return reinterpret_cast<Signals*>(call.state[rank]) + blockIdx.x;
}

// Returns when this block's barrier `number` was reached on every rank. A peer may be one ahead.
__device__ __forceinline__ void barrier(const Call& call, uint32_t number) {
  __syncthreads();
  if (threadIdx.x < static_cast<unsigned>(call.ranks)) {
    store_release(&signals_of(call, threadIdx.x)->reached[call.rank], number);
    const uint32_t* reached = &signals_of(call, call.rank)->reached[threadIdx.x];
    while (static_cast<int32_t>(load_acquire(reached) - number) < 0) {
    }
  }
  __syncthreads();
}

__device__ __forceinline__ float block_sum(float value) {
  __shared__ float warp_sums[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (threadIdx.x % kWarp == 0) warp_sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kThreads / kWarp; ++warp) sum += warp_sums[warp];
  return sum;
}

__device__ __forceinline__ void reduce_and_norm(const Call& call) {
  __shared__ float sums[kMostRow];
  Signals* own = signals_of(call, call.rank);
  const uint32_t passed = own->passed;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * call.h;

  barrier(call, passed + 1);
  float squares = 0.0f;
  for (int i = threadIdx.x; i < call.h; i += kThreads) {
    float sum = 0.0f;
    for (int rank = 0; rank < call.ranks; ++rank) {
      const auto* input = reinterpret_cast<const __nv_bfloat16*>(call.inputs[rank]);
      sum += __bfloat162float(input[row + i]);
    }
    sum += __bfloat162float(call.residual[row + i]);
    call.residual[row + i] = __float2bfloat16_rn(sum);
    sums[i] = sum;
    squares += sum * sum;
  }
  const float scale = rsqrtf(block_sum(squares) / static_cast<float>(call.h) + call.eps);
  for (int i = threadIdx.x; i < call.h; i += kThreads) {
    call.out[row + i] = __float2bfloat16_rn(sums[i] * scale * __bfloat162float(call.weight[i]));
  }
  barrier(call, passed + 2);
  if (threadIdx.x == 0) own->passed = passed + 2;
}

__global__ void __launch_bounds__(kThreads) allreduce_kernel(const Call call) {
  reduce_and_norm(call);
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
                     static_cast<int>(h),
                     static_cast<int>(ranks),
                     static_cast<int>(rank),
                     eps};
  allreduce_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}
