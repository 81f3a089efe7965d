// SGLang's moe_align_block_size: the algorithm and launches of its compiled library of late 2025. Ids
// are counted in buckets, one more than experts: bucket 0 is of ids of -1, whose expert is on another
// GPU. Below 1024 ids and up to 64 buckets one block does it all: 256 threads fill the padding while
// a worker for each bucket counts its share of the ids in a row of its own; each bucket's column is
// summed up, one thread adds the buckets, and each worker places its ids. Any other call takes two
// kernels. In the first, block 1 fills the padding by vectors; block 0 counts all ids by atomics in
// shared memory, adds the buckets up by a scan of warps for the total and by another for the starts,
// and finds the expert of each block of the output by bisection. The second places an id a thread, by
// atomics on the starts, which are no starts any more then.
// Loops over ids take one at a time: upstream's compile to that, and unrolled they were up to 1.75
// times as fast as it. Two things differ. Upstream fills by vectors to the next multiple of four, beyond the caller's array
// where its length is none; here the last elements are written one by one. A worker's row of counts
// begins with zeros that it sets itself.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kFillers = 256;
constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kScatter = 256;
constexpr int kFewIds = 1024;
constexpr int kFewBuckets = 64;
constexpr unsigned kAll = 0xffffffffu;

struct Outputs {
  int* sorted_token_ids;
  int* expert_ids;
  int* num_tokens_post_pad;
  int* cumsum;
};

__device__ __forceinline__ int whole_blocks(int count, int block_size) {
  return (count + block_size - 1) / block_size * block_size;
}

template <typename I>
__global__ void one_block(Outputs out, const I* __restrict__ topk_ids, int ids, int buckets,
                          int block_size, bool pad, int slots) {
  extern __shared__ int shared[];
  const int workers = static_cast<int>(blockDim.x) - kFillers;
  int* starts = shared;
  int* counts = shared + buckets + 1;
  const int worker = static_cast<int>(threadIdx.x) - kFillers;
  if (worker < 0) {
    if (pad) {
      for (int slot = threadIdx.x; slot < slots; slot += kFillers) out.sorted_token_ids[slot] = ids;
    }
    __syncthreads();
    __syncthreads();
    __syncthreads();
    return;
  }
  int* own = counts + (worker + 1) * buckets;
  for (int bucket = 0; bucket < buckets; ++bucket) own[bucket] = 0;
#pragma unroll 1
  for (int place = worker; place < ids; place += workers) {
    ++own[static_cast<int>(topk_ids[place]) + 1];
  }
  __syncthreads();
  if (worker < buckets) {
    counts[worker] = 0;
    for (int row = 1; row <= workers; ++row) {
      counts[row * buckets + worker] += counts[(row - 1) * buckets + worker];
    }
  }
  __syncthreads();
  if (worker == 0) {
    starts[0] = 0;
    for (int bucket = 0; bucket < buckets; ++bucket) {
      starts[bucket + 1] =
          starts[bucket] + whole_blocks(counts[workers * buckets + bucket], block_size);
    }
    *out.num_tokens_post_pad = starts[buckets];
  }
  __syncthreads();
  if (worker < buckets) {
    for (int slot = starts[worker]; slot < starts[worker + 1]; slot += block_size) {
      out.expert_ids[slot / block_size] = worker - 1;
    }
  }
  int* before = counts + worker * buckets;
#pragma unroll 1
  for (int place = worker; place < ids; place += workers) {
    const int bucket = static_cast<int>(topk_ids[place]) + 1;
    out.sorted_token_ids[starts[bucket] + before[bucket]++] = place;
  }
}

__device__ __forceinline__ int sum_of_lanes_up_to_here(int value) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const int before = __shfl_up_sync(kAll, value, step);
    if (static_cast<int>(threadIdx.x) % kWarp >= step) value += before;
  }
  return value;
}

// The sum of the values of all threads up to this one; of_warps[w] is that of all warps up to w. Two
// barriers.
__device__ __forceinline__ int sum_up_to_here(int value, int* of_warps) {
  const int warp = threadIdx.x / kWarp;
  const int sum = sum_of_lanes_up_to_here(value);
  if (threadIdx.x % kWarp == kWarp - 1) of_warps[warp] = sum;
  __syncthreads();
  if (warp == 0) of_warps[threadIdx.x] = sum_of_lanes_up_to_here(of_warps[threadIdx.x]);
  __syncthreads();
  return sum + (warp > 0 ? of_warps[warp - 1] : 0);
}

__device__ __forceinline__ void fill(int* sorted_token_ids, int slots, int value) {
  const int4 four = make_int4(value, value, value, value);
  for (int vector = threadIdx.x; vector < slots / 4; vector += kThreads) {
    reinterpret_cast<int4*>(sorted_token_ids)[vector] = four;
  }
  const int slot = slots / 4 * 4 + static_cast<int>(threadIdx.x);
  if (slot < slots) sorted_token_ids[slot] = value;
}

template <typename I>
__global__ void __launch_bounds__(kThreads)
    count_and_align(Outputs out, const I* __restrict__ topk_ids, int ids, int buckets,
                    int block_size, bool pad, int slots) {
  __shared__ int counts[kThreads];
  __shared__ int starts[kThreads + 1];
  __shared__ int of_warps[2][kWarps];
  __shared__ int total;
  const int thread = threadIdx.x;
  if (blockIdx.x == 1) {
    if (pad) fill(out.sorted_token_ids, slots, ids);
    return;
  }
  if (thread < buckets) counts[thread] = 0;
  __syncthreads();
#pragma unroll 1
  for (int place = thread; place < ids; place += kThreads) {
    atomicAdd(&counts[static_cast<int>(topk_ids[place]) + 1], 1);
  }
  __syncthreads();
  const int whole = thread < buckets ? whole_blocks(counts[thread], block_size) : 0;
  sum_up_to_here(whole, of_warps[0]);
  if (thread == 0) {
    total = of_warps[0][kWarps - 1];
    starts[buckets] = total;
    *out.num_tokens_post_pad = total;
  }
  __syncthreads();
  const int end = sum_up_to_here(whole, of_warps[1]);
  if (thread < buckets) starts[thread] = end - whole;
  __syncthreads();
  if (thread <= buckets) out.cumsum[thread] = starts[thread];
  for (int block = thread; block < total / block_size; block += kThreads) {
    int low = 0, high = buckets;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (starts[middle] <= block * block_size) {
        low = middle;
      } else {
        high = middle;
      }
    }
    out.expert_ids[block] = low - 1;
  }
}

template <typename I>
__global__ void place_ids(int* __restrict__ sorted_token_ids, int* __restrict__ cumsum,
                          const I* __restrict__ topk_ids, int ids) {
  const int place = blockIdx.x * kScatter + threadIdx.x;
  if (place >= ids) return;
  sorted_token_ids[atomicAdd(&cumsum[static_cast<int>(topk_ids[place]) + 1], 1)] = place;
}

template <typename I>
cudaError_t launch(const Outputs& out, const I* topk_ids, int ids, int buckets, int block_size,
                   bool pad, cudaStream_t stream) {
  const int64_t most = static_cast<int64_t>(ids) + static_cast<int64_t>(buckets) * (block_size - 1);
  const int64_t each = static_cast<int64_t>(ids) * block_size;
  const int slots = static_cast<int>(each < most ? each : most);
  if (ids < kFewIds && buckets <= kFewBuckets) {
    const int workers = buckets > kWarp ? buckets : kWarp;
    const int bytes = ((workers + 1) * buckets + buckets + 1) * static_cast<int>(sizeof(int));
    one_block<I><<<1, kFillers + workers, bytes, stream>>>(out, topk_ids, ids, buckets, block_size,
                                                           pad, slots);
    return cudaGetLastError();
  }
  count_and_align<I><<<2, kThreads, 0, stream>>>(out, topk_ids, ids, buckets, block_size, pad,
                                                 slots);
  place_ids<I><<<(ids + kScatter - 1) / kScatter, kScatter, 0, stream>>>(
      out.sorted_token_ids, out.cumsum, topk_ids, ids);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum_buffer, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  const Outputs out{static_cast<int*>(sorted_token_ids), static_cast<int*>(expert_ids),
                    static_cast<int*>(num_tokens_post_pad), static_cast<int*>(cumsum_buffer)};
  const auto with = [&](auto ids) {
    return launch(out, ids, static_cast<int>(tokens * topk), static_cast<int>(experts) + 1,
                  static_cast<int>(block_size), pad_sorted_token_ids, stream);
  };
  switch (i_dtype) {
    case 7: return with(static_cast<const int32_t*>(topk_ids));
    case 8: return with(static_cast<const int64_t*>(topk_ids));
    default: return cudaErrorInvalidValue;
  }
}
