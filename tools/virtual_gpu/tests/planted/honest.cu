// What looks like a planted bug and is none: nothing may be said of these kernels.
#include "mbarriers.cuh"
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define LANE (threadIdx.x % 32)

__device__ unsigned counter;
KERNEL(last_block) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[INDEX] + 1;
    __threadfence();
    last = atomicInc(&counter, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += out[i];
    out[100] = sum;
    for (int i = 0; i < gridDim.x; i++) out[i] = 0;
  }
}
KERNEL(warp_sum_with_syncs) {
  __shared__ float t[128];
  float x = in[INDEX];
  t[threadIdx.x] = x;
  __syncwarp();
  for (int half = 16; half > 0; half /= 2) {
    if (LANE < half) t[threadIdx.x] = x += t[threadIdx.x + half];
    __syncwarp();
  }
  out[INDEX] = t[threadIdx.x - LANE];
}
KERNEL(shuffle_between) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  float x = __shfl_xor_sync(~0u, in[INDEX], 1);
  out[INDEX] = t[threadIdx.x ^ 1] - x;
}
KERNEL(same_value_by_all) {
  __shared__ int flag;
  flag = 5;
  out[0] = 5;
  __syncthreads();
  out[INDEX + 1] = flag;
}
KERNEL(own_elements_in_place) {
  for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) out[i] = 2 * out[i];
}
KERNEL(bytes_of_one_word) {
  reinterpret_cast<unsigned char*>(out)[threadIdx.x * gridDim.x + blockIdx.x] = threadIdx.x + blockIdx.x;
}
KERNEL(interleaved_blocks) {
  out[threadIdx.x * gridDim.x + blockIdx.x] = in[INDEX];
}
KERNEL(sums_by_atomics) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[INDEX]);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, sum);
}
KERNEL(all_read_one_writes_later) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  __syncthreads();
  float x = t[0];
  __syncthreads();
  if (threadIdx.x == 0) t[0] = 1;
  __syncthreads();
  out[INDEX] = x + t[0];
}
KERNEL(waits_for_the_block_before) {
  volatile float* flags = out + 512;
  if (threadIdx.x == 0) {
    if (blockIdx.x > 0) while (flags[blockIdx.x - 1] != 5) {}
    out[blockIdx.x] = 1 + (blockIdx.x > 0 ? out[blockIdx.x - 1] : 0);
    __threadfence();
    flags[blockIdx.x] = 5;
  }
}
KERNEL(all_fence_before_one_copies) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = in[INDEX];
  fence();
  __syncthreads();
  if (threadIdx.x == 0) put_without_fence(out + 128 * blockIdx.x, tile, 512), wait_for_copies();
}
KERNEL(one_fences_after_the_barrier) {
  __shared__ alignas(128) float tile[2][128];
  for (int i = 0; i < 2; i++) {
    tile[i][threadIdx.x] = in[INDEX];
    __syncthreads();
    if (threadIdx.x == 64) put(out + 128 * blockIdx.x, tile[i], 512), wait_for_copies();
    __syncthreads();
  }
}
KERNEL(copies_what_a_copy_brought) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) expect(&full, 512), fetch(tile, in, 512, &full);
  wait(&full, 0);
  if (threadIdx.x == 32) put_without_fence(out + 128 * blockIdx.x, tile, 512), wait_for_copies();
}
KERNEL(one_lane_waits_for_its_warp) {
  __shared__ alignas(128) float tile[2][128];
  __shared__ uint64_t full, filled;
  if (threadIdx.x == 0) init(&full, 1), init(&filled, 128);
  __syncthreads();
  if (threadIdx.x == 0) expect(&full, 512), fetch(tile[0], in, 512, &full);
  tile[1][threadIdx.x] = in[INDEX];
  arrive(&filled);
  if (LANE == 0) wait(&full, 0), wait(&filled, 0);
  if (LANE == 0) out[INDEX] = tile[0][threadIdx.x] + tile[1][127 - threadIdx.x];
  __syncwarp();
  if (LANE != 0) out[INDEX] = tile[0][threadIdx.x] + tile[1][127 - threadIdx.x];
}
KERNEL(half_of_the_lanes_wait_here_and_half_there) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full, filled;
  if (threadIdx.x == 0) init(&full, 1), init(&filled, 64);
  __syncthreads();
  if (threadIdx.x == 0) expect(&full, 512), fetch(tile, in, 512, &full);
  if (LANE < 16) wait(&full, 0), arrive(&filled);
  else wait(&filled, 0);
  out[INDEX] = tile[threadIdx.x ^ 31];
}
KERNEL(waits_for_the_reads_and_then_for_all) {
  __shared__ alignas(128) float tile[2][128];
  for (int i = 0; i < 4; i++) {
    if (threadIdx.x == 0) wait_for_reads();
    __syncthreads();
    tile[i % 2][threadIdx.x] = in[INDEX] + i;
    fence();
    __syncthreads();
    if (threadIdx.x == 0) put_without_fence(out + 128 * blockIdx.x, tile[i % 2], 512);
  }
  if (threadIdx.x == 0) wait_for_copies();
  __syncthreads();
  float x = out[128 * blockIdx.x + 127 - threadIdx.x];
  __syncthreads();
  out[INDEX] = x;
}
KERNEL(fence_before_an_arrival) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t filled;
  if (threadIdx.x == 0) init(&filled, 128);
  __syncthreads();
  tile[threadIdx.x] = in[INDEX];
  fence();
  arrive(&filled);
  if (threadIdx.x < 32) {
    wait(&filled, 0);
    if (threadIdx.x == 0) put_without_fence(out + 128 * blockIdx.x, tile, 512), wait_for_copies();
  }
}
KERNEL(next_tile_once_the_warp_has_read) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) init(&full, 1), init(&empty, blockDim.x / 32);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x == 0) {
      if (i > 0) wait(&empty, i - 1 & 1);
      expect(&full, 512), fetch(tile, in + 16 * i, 512, &full);
    }
    wait(&full, i & 1);
    sum += tile[threadIdx.x ^ 1];
    __syncwarp();
    if (LANE == 0) arrive(&empty);
  }
  out[INDEX] = sum;
}
KERNEL(next_tile_once_all_lanes_have_arrived) {
  __shared__ alignas(128) float tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) init(&full, 1), init(&empty, blockDim.x);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 3; i++) {
    if (threadIdx.x == 0) expect(&full, 512), fetch(tile, in + 16 * i, 512, &full);
    wait(&full, i & 1);
    sum += tile[threadIdx.x ^ 1];
    arrive(&empty);
    if (threadIdx.x == 0) wait(&empty, i & 1);
  }
  out[INDEX] = sum;
}
KERNEL(barrier_after_return) {
  if (threadIdx.x % 2) return;
  __syncthreads();
  out[INDEX] = 1;
}
KERNEL(last_warp_reads_global) {
  __shared__ unsigned arrived;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  out[INDEX] = in[INDEX];
  __threadfence();
  __syncwarp();
  unsigned before = 0;
  if (LANE == 0) before = atomicAdd(&arrived, 1);
  if (__shfl_sync(~0u, before, 0) != 3) return;
  __threadfence();
  float sum = 0;
  for (int i = LANE; i < 128; i += 32) sum += out[128 * blockIdx.x + i];
  out[512 + 32 * blockIdx.x + LANE] = sum;
}
KERNEL(last_warp_reads_shared) {
  __shared__ unsigned arrived;
  __shared__ float part[128];
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  part[threadIdx.x] = in[INDEX];
  __threadfence_block();
  __syncwarp();
  unsigned before = 0;
  if (LANE == 0) before = atomicAdd(&arrived, 1);
  if (__shfl_sync(~0u, before, 0) != 3) return;
  __threadfence_block();
  float sum = 0;
  for (int i = LANE; i < 128; i += 32) sum += part[i];
  out[512 + 32 * blockIdx.x + LANE] = sum;
}
