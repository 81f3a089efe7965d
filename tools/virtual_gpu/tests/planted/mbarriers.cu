// Planted bugs with mbarriers and bulk copies, as in planted.cu.
#include <cuda/barrier>
#include <cuda_pipeline.h>
#include "mbarriers.cuh"
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define SHARED                                \
  __shared__ alignas(128) float tile[2][128]; \
  __shared__ uint64_t full, empty
#define FIRST if (threadIdx.x == 0)
#define LAST if (threadIdx.x == 127)

KERNEL(missing_mbarrier_wait) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile[0], in, 512, &full);
  __syncthreads();
  out[threadIdx.x] = tile[0][threadIdx.x];  // BUG missing_mbarrier_wait
}
KERNEL(one_warp_waits) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile[0], in, 512, &full);
  if (threadIdx.x < 32) wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];  // BUG one_warp_waits
}
KERNEL(lane_0_waits) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile[0], in, 512, &full);
  if (threadIdx.x % 32 == 0) wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];  // BUG lane_0_waits
}
KERNEL(one_lane_waits_for_stores) {
  SHARED;
  FIRST init(&full, 32);
  __syncthreads();
  if (threadIdx.x >= 96) tile[0][threadIdx.x - 96] = in[threadIdx.x], arrive(&full);
  if (threadIdx.x == 7) wait(&full, 0);
  if (threadIdx.x < 8) out[threadIdx.x] = tile[0][threadIdx.x];  // BUG one_lane_waits_for_stores
}
KERNEL(a_wait_is_no_meeting) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  tile[1][threadIdx.x] = in[threadIdx.x];
  LAST arrive(&full);
  if (threadIdx.x % 32 == 5) wait(&full, 0);
  out[threadIdx.x] = tile[1][threadIdx.x ^ 1];  // BUG a_wait_is_no_meeting
}
KERNEL(wrong_parity) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile[0], in, 512, &full);
  wait(&full, 1);
  out[threadIdx.x] = tile[0][threadIdx.x];  // BUG wrong_parity
}
KERNEL(parity_never_flips) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    FIRST expect(&full, 256), fetch(tile[i], in + 64 * i, 256, &full);
    wait(&full, 0);
    sum += tile[i][threadIdx.x % 64];  // BUG parity_never_flips
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
KERNEL(too_many_bytes_expected) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST expect(&full, 528), fetch(tile[0], in, 512, &full);
  wait(&full, 0);  // BUG too_many_bytes_expected
  out[threadIdx.x] = tile[0][threadIdx.x];
}
KERNEL(arrivals_missing) {
  SHARED;
  FIRST init(&empty, 129);
  __syncthreads();
  tile[0][threadIdx.x] = in[threadIdx.x];
  arrive(&empty);
  wait(&empty, 0);  // BUG arrivals_missing
  out[threadIdx.x] = tile[0][127 - threadIdx.x];
}
KERNEL(count_far_too_small) {
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ float tile[128];
  FIRST init(&barrier, blockDim.x / 2);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  barrier.arrive_and_wait();  // BUG count_far_too_small
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
KERNEL(count_too_small) {
  SHARED;
  FIRST init(&empty, 96);
  __syncthreads();
  tile[0][threadIdx.x] = in[threadIdx.x];
  arrive(&empty);
  wait(&empty, 0);
  out[threadIdx.x] = tile[0][127 - threadIdx.x];  // BUG count_too_small
}
KERNEL(misaligned_bulk_copy) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST {
    expect(&full, 512);
    fetch(tile[0], in + 1, 512, &full);  // BUG misaligned_bulk_copy
  }
  wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];
}
KERNEL(bulk_size) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST {
    expect(&full, 500);
    fetch(tile[0], in, 500, &full);  // BUG bulk_size
  }
  wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];
}
KERNEL(bulk_past_the_end) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  FIRST {
    expect(&full, 512);
    fetch(tile[0], in + n - 120, 512, &full);  // BUG bulk_past_the_end
  }
  wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];
}
KERNEL(init_without_barrier) {
  SHARED;
  FIRST init(&empty, 128);
  tile[0][threadIdx.x] = in[threadIdx.x];
  arrive(&empty);  // BUG init_without_barrier
  wait(&empty, 0);
  out[threadIdx.x] = tile[0][threadIdx.x];
}
KERNEL(stage_not_empty) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 2; i++) {
    LAST {
      expect(&full, 256);
      fetch(tile[0], in + 64 * i, 256, &full);  // BUG stage_not_empty
    }
    wait(&full, i);
    sum += tile[0][threadIdx.x % 64];
  }
  out[threadIdx.x] = sum;
}
KERNEL(store_not_read_yet) {
  SHARED;
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  FIRST put(out, tile[0], 512);
  __syncthreads();
  tile[0][threadIdx.x] = -1;  // BUG store_not_read_yet
}
KERNEL(store_before_barrier) {
  SHARED;
  tile[0][threadIdx.x] = in[threadIdx.x];
  LAST put(out, tile[0], 512);  // BUG store_before_barrier
}
KERNEL(no_syncwarp_before_arrival) {
  SHARED;
  FIRST init(&empty, 4);
  __syncthreads();
  tile[0][threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x % 32 == 0) {
    out[threadIdx.x] = tile[0][threadIdx.x + 1];  // BUG no_syncwarp_before_arrival
    arrive(&empty);
  }
  wait(&empty, 0);
}
KERNEL(loads_what_is_still_written) {
  SHARED;
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  fence();
  FIRST put(out, tile[0], 512), wait_for_reads();
  __syncthreads();
  float x = out[127 - threadIdx.x];  // BUG loads_what_is_still_written
  FIRST wait_for_copies();
  out[128 + threadIdx.x] = x;
}
KERNEL(overwrites_what_is_still_written) {
  SHARED;
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  FIRST {
    put(out, tile[0], 512), wait_for_reads();
    out[7] = -1;  // BUG overwrites_what_is_still_written
  }
}
KERNEL(fetches_what_is_still_written) {
  SHARED;
  FIRST init(&full, 1);
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  FIRST {
    put(out, tile[0], 512), wait_for_reads(), expect(&full, 256);
    fetch(tile[1], out + 64, 256, &full);  // BUG fetches_what_is_still_written
  }
  wait(&full, 0);
}
KERNEL(no_fence_before_the_copy) {
  SHARED;
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  FIRST put_without_fence(out, tile[0], 512);  // BUG no_fence_before_the_copy
  FIRST wait_for_copies();
}
KERNEL(fence_before_the_stores) {
  SHARED;
  fence();
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  FIRST put_without_fence(out, tile[0], 512);  // BUG fence_before_the_stores
  FIRST wait_for_copies();
}
KERNEL(second_tile_not_fenced) {
  SHARED;
  for (int i = 0; i < 2; i++) {
    tile[i][threadIdx.x] = in[threadIdx.x];
    if (i == 0) fence();
    __syncthreads();
    FIRST put_without_fence(out, tile[i], 512);  // BUG second_tile_not_fenced
  }
  FIRST wait_for_copies();
}
KERNEL(copy_over_own_lanes) {
  SHARED;
  FIRST init(&full, 1);
  tile[0][threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = tile[0][31 - threadIdx.x];
  FIRST expect(&full, 128);
  FIRST fetch(tile[0], in + 32, 128, &full);  // BUG copy_over_own_lanes
  wait(&full, 0);
  out[threadIdx.x] += tile[0][threadIdx.x % 32];
}
KERNEL(copy_over_a_lane_s_store) {
  SHARED;
  FIRST init(&full, 1);
  __syncthreads();
  if (threadIdx.x < 32) tile[0][threadIdx.x] = in[threadIdx.x + 64];
  FIRST expect(&full, 128);
  FIRST fetch(tile[0], in + 32, 128, &full);  // BUG copy_over_a_lane_s_store
  wait(&full, 0);
  out[threadIdx.x] = tile[0][threadIdx.x % 32];
}
KERNEL(next_tile_over_own_lanes) {
  SHARED;
  FIRST init(&full, 1), init(&empty, 96);
  __syncthreads();
  FIRST expect(&full, 512), fetch(tile[0], in, 512, &full);
  wait(&full, 0);
  const float first = tile[0][threadIdx.x ^ 1];
  if (threadIdx.x >= 32) arrive(&empty);
  FIRST {
    wait(&empty, 0), expect(&full, 512);
    fetch(tile[0], in + 64, 512, &full);  // BUG next_tile_over_own_lanes
  }
  wait(&full, 1);
  out[threadIdx.x] = first + tile[0][threadIdx.x];
}
