// Decoupled look-back in one launch: tiles are numbered by a ticket, and a tile's state and sum share a
// 64-bit word that its followers read (Merrill and Garland, 2016).
#include <cub/block/block_scan.cuh>
#include <cuda/atomic>
#include <cstdint>
#include <cuda_runtime.h>

using Word = unsigned long long;
constexpr Word kOwn = Word(1) << 32, kAll = Word(2) << 32;

__global__ void tiles(int* out, const int* x, Word* words, int64_t n) {
  using Scan = cub::BlockScan<int, 256>;
  __shared__ Scan::TempStorage storage;
  __shared__ unsigned ticket;
  __shared__ int before;
  if (threadIdx.x == 0) ticket = unsigned(atomicAdd(&words[0], Word(1)));
  __syncthreads();
  const int64_t tile = ticket, i = tile * 256 + threadIdx.x;
  int sum, total;
  Scan(storage).InclusiveSum(i < n ? x[i] : 0, sum, total);
  Word* states = words + 1;
  if (threadIdx.x == 0) {
    cuda::atomic_ref<Word, cuda::thread_scope_device> mine(states[tile]);
    if (tile > 0) mine.store(kOwn | unsigned(total), cuda::memory_order_release);
    int sum_before = 0;
    for (int64_t t = tile - 1; t >= 0; --t) {
      cuda::atomic_ref<Word, cuda::thread_scope_device> other(states[t]);
      Word seen;
      while ((seen = other.load(cuda::memory_order_acquire)) < kOwn) {}
      sum_before += int(unsigned(seen));
      if (seen >= kAll) break;
    }
    mine.store(kAll | unsigned(sum_before + total), cuda::memory_order_release);
    before = sum_before;
  }
  __syncthreads();
  if (i < n) out[i] = before + sum;
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int64_t count = (n + 255) / 256;
  if (cudaError_t error = cudaMemsetAsync(room, 0, (count + 1) * sizeof(Word), stream)) return error;
  tiles<<<unsigned(count), 256, 0, stream>>>((int*)out, (const int*)x, (Word*)room, n);
  return cudaGetLastError();
}
