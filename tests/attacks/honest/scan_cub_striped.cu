// cub in three launches: striped loads and stores through shared memory, eight items a thread.
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kThreads = 128, kItems = 8, kTile = kThreads * kItems;

__global__ void reduce(int* sums, const int* x, int n) {
  using Load = cub::BlockLoad<int, kThreads, kItems, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ union { Load::TempStorage load; Reduce::TempStorage reduce; } room;
  int items[kItems];
  Load(room.load).Load(x + blockIdx.x * kTile, items, n - blockIdx.x * kTile, 0);
  __syncthreads();
  const int total = Reduce(room.reduce).Sum(items);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

struct Carry {
  int sum;
  __device__ int operator()(int added) {
    const int before = sum;
    sum += added;
    return before;
  }
};

__global__ void spine(int* sums, int tiles) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ Scan::TempStorage room;
  Carry carry{0};
  for (int start = 0; start < tiles; start += kThreads) {
    const int t = start + threadIdx.x;
    int item = t < tiles ? sums[t] : 0;
    Scan(room).ExclusiveSum(item, item, carry);
    if (t < tiles) sums[t] = item;
    __syncthreads();
  }
}

__global__ void finish(int* out, const int* sums, const int* x, int n) {
  using Load = cub::BlockLoad<int, kThreads, kItems, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, kThreads, kItems, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<int, kThreads, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ union { Load::TempStorage load; Store::TempStorage store; Scan::TempStorage scan; } room;
  int items[kItems];
  const int first = blockIdx.x * kTile;
  Load(room.load).Load(x + first, items, n - first, 0);
  __syncthreads();
  Scan(room.scan).InclusiveSum(items, items);
  for (int& item : items) item += sums[blockIdx.x];
  __syncthreads();
  Store(room.store).Store(out + first, items, n - first);
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int tiles = int((n + kTile - 1) / kTile);
  reduce<<<tiles, kThreads, 0, stream>>>((int*)room, (const int*)x, int(n));
  spine<<<1, kThreads, 0, stream>>>((int*)room, tiles);
  finish<<<tiles, kThreads, 0, stream>>>((int*)out, (const int*)room, (const int*)x, int(n));
  return cudaGetLastError();
}
