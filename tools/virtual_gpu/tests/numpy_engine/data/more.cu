// Libraries and rarer instructions: CUB, cooperative groups reductions, cp.async, printf, policies.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdint>
#include <cstdio>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

extern "C" __global__ void cub_reduce(float *out, const float *in) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
extern "C" __global__ void cub_scan(int *out, const int *in) {
  using Scan = cub::BlockScan<int, 96>;
  __shared__ typename Scan::TempStorage storage;
  int v = in[threadIdx.x];
  Scan(storage).InclusiveSum(v, v);
  out[threadIdx.x] = v;
}
extern "C" __global__ void group_reduce(int *out, const int *in) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int v = in[threadIdx.x];
  out[threadIdx.x] = cg::reduce(warp, v, cg::plus<int>()) * 1000 + cg::reduce(warp, v, cg::greater<int>());
}
// Which group it is shows only when it runs: a block, or a tile of a warp.
__device__ __noinline__ int group_sum(const cg::thread_group &group, int *room, int value) {
  const int rank = group.thread_rank();
  for (int half = group.size() / 2; half > 0; half /= 2) {
    room[rank] = value;
    group.sync();
    if (rank < half) value += room[rank + half];
    group.sync();
  }
  return value;
}
extern "C" __global__ void groups(int *out, int tiles) {
  __shared__ int room[128];
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition(block, 32);
  const int sum = tiles ? group_sum(tile, room + threadIdx.x / 32 * 32, threadIdx.x) : group_sum(block, room, threadIdx.x);
  if (threadIdx.x % (tiles ? 32 : 128) == 0) out[threadIdx.x / 32] = sum;
}
extern "C" __global__ void own_cluster(int *out, int waits) {
  __shared__ int room[64];
  room[threadIdx.x] = threadIdx.x;
  asm volatile("barrier.cluster.arrive.aligned;");
  if (waits) asm volatile("barrier.cluster.wait.aligned;");
  out[threadIdx.x] = room[63 - threadIdx.x] + cg::cluster_group::num_blocks() + cg::cluster_group::block_rank();
}
extern "C" __global__ void pipeline(float *out, const float *in, int n) {
  __shared__ float4 stage[2][64];
  const float4 *source = reinterpret_cast<const float4 *>(in);
  __pipeline_memcpy_async(&stage[0][threadIdx.x], &source[threadIdx.x], 16);
  __pipeline_commit();
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    if (k + 1 < n)
      __pipeline_memcpy_async(&stage[(k + 1) & 1][threadIdx.x], &source[(k + 1) * 64 + threadIdx.x],
                              16, k == 1 ? 8 : 0);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const float4 v = stage[k & 1][63 - threadIdx.x];
    sum = sum * 2 + v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void unwaited(float *out, const float *in) {
  __shared__ float4 stage[32];
  __pipeline_memcpy_async(&stage[threadIdx.x], reinterpret_cast<const float4 *>(in) + threadIdx.x, 16);
  __pipeline_commit();
  __syncthreads();
  out[threadIdx.x] = stage[threadIdx.x].x;
}
extern "C" __global__ void waited_for_one(float *out, const float *in) {
  __shared__ float stage[2][32];
  for (int k = 0; k < 2; ++k) {
    __pipeline_memcpy_async(&stage[k][threadIdx.x], &in[k * 32 + threadIdx.x], 4);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  out[threadIdx.x] = stage[0][threadIdx.x];
  out[32 + threadIdx.x] = stage[1][threadIdx.x];
}
// Tiles of float4, one for each thread, `ahead` of them on their way to `buffers` buffers; `in` may hold equal tiles.
// last: whether a barrier ends each turn. early: the barrier between wait and read is missing.
extern "C" __global__ void stages(float *out, const float *in, int n, int ahead, int buffers, int last, int early) {
  __shared__ float4 stage[4][64];
  const float4 *source = reinterpret_cast<const float4 *>(in);
  float sum = 0;
  for (int k = 0; k < n + ahead; ++k) {
    if (k < n) __pipeline_memcpy_async(&stage[k % buffers][threadIdx.x], &source[k * 64 + threadIdx.x], 16);
    __pipeline_commit();
    if (k < ahead) continue;
    if (ahead == 1) __pipeline_wait_prior(1);
    else __pipeline_wait_prior(2);
    if (!early) __syncthreads();
    const float4 v = stage[(k - ahead) % buffers][63 - threadIdx.x];
    sum = sum * 2 + v.x + v.y + v.z + v.w;
    if (last) __syncthreads();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void own_warp(float *out, const float *in, int n, int meet) {
  __shared__ float stage[64];
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    __pipeline_memcpy_async(&stage[threadIdx.x], &in[k * 64 + threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    sum = sum * 2 + stage[threadIdx.x ^ 1];
    if (meet) __syncwarp();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void prints(int *out, const int *in) {
  const int v = in[threadIdx.x];
  if (v > 10) printf("%d is large: %s\n", v, "yes");
  out[threadIdx.x] = v + 1;
}
extern "C" __global__ void policies(float *out, const float *in) {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  float v;
  asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;"
               : "=f"(v) : "l"(in + threadIdx.x), "l"(policy));
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;"
               :: "l"(out + threadIdx.x), "f"(v * 2), "l"(policy) : "memory");
}
