// Bulk copies of what the launch stored: n says where the fence is, if any.
#include "../../planted/mbarriers.cuh"
#define KERNEL(name) extern "C" __global__ void name(float* out, float* room, int n)
#define FENCE(space) asm volatile("fence.proxy.async" space ";" ::: "memory")
#define FIRST if (threadIdx.x == 0)

__device__ float fetched(const float* from) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile, from, 512, &full);
  wait(&full, 0);
  return tile[127 - threadIdx.x];
}
KERNEL(own) {
  float* mine = room + blockIdx.x * 128;
  if (n == 1) FENCE("");
  mine[threadIdx.x] = threadIdx.x + 1;
  if (n == 2) __threadfence();
  if (n == 3) FENCE(".shared::cta");
  if (n == 4) FIRST FENCE("");
  if (n == 10) FENCE("");
  if (n == 11) FENCE(".global");
  __syncthreads();
  if (n == 12) FIRST FENCE(".global");
  out[blockIdx.x * 128 + threadIdx.x] = fetched(mine);
}
KERNEL(added) {
  if (n == 1) FENCE(".global");
  atomicAdd(&room[threadIdx.x / 2], 1.0f);
  if (n == 10) FENCE(".global");
  __syncthreads();
  out[threadIdx.x] = fetched(room);
}
// The last block stores, all blocks before it have; each then copies what the block before it stored.
KERNEL(handed_on) {
  volatile float* flags = room + 128 * gridDim.x;
  if (n == 1) FIRST FENCE(".global");
  room[blockIdx.x * 128 + threadIdx.x] = threadIdx.x + 1;
  if (n == 10) FENCE(".global");
  __threadfence();
  __syncthreads();
  FIRST flags[blockIdx.x] = 1;
  if (blockIdx.x == 0) return;
  FIRST while (flags[blockIdx.x - 1] == 0) {}
  __syncthreads();
  if (n == 11) FIRST FENCE("");
  out[blockIdx.x * 128 + threadIdx.x] = fetched(room + (blockIdx.x - 1) * 128);
}
KERNEL(reduced) {
  __shared__ alignas(128) float tile[128];
  room[threadIdx.x] = 1;
  if (n == 10) FENCE("");
  tile[threadIdx.x] = threadIdx.x;
  fence();
  __syncthreads();
  FIRST asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 512;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group 0;" ::"l"(room), "r"(at(tile)) : "memory");
}
// A block copies its neighbour's bytes, too, at which it does not look.
KERNEL(beside) {
  out[blockIdx.x * 128 + threadIdx.x] = fetched(room);
  room[blockIdx.x * 32 + threadIdx.x % 32] = 2;
}
