// Planted bugs of order: within a warp, and between thread blocks on global memory. Four blocks of 128
// threads; out and in have n = 1024 floats, none of which is 0, 1, 5 or 7.
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define LANE (threadIdx.x % 32)

KERNEL(warp_sum_without_sync) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2)
    if (LANE < half)
      t[threadIdx.x] += t[threadIdx.x + half];  // BUG warp_sum_without_sync
  out[INDEX] = t[threadIdx.x];
}
KERNEL(neighbour_without_sync) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  out[INDEX] = t[threadIdx.x ^ 1];  // BUG neighbour_without_sync
}
KERNEL(two_lanes_one_place) {
  __shared__ float t[128];
  t[threadIdx.x / 2] = in[INDEX];  // BUG two_lanes_one_place
  __syncthreads();
  out[INDEX] = t[threadIdx.x / 2];
}
KERNEL(branches_are_no_order) {
  __shared__ float t[128];
  float x = 0;
  if (LANE < 16) t[threadIdx.x] = in[INDEX]; else x = t[threadIdx.x - 16];  // BUG branches_are_no_order
  out[INDEX] = x;
}
KERNEL(overwritten_while_read) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  __syncwarp();
  float x = t[threadIdx.x ^ 1];
  t[threadIdx.x] = 2 * x;  // BUG overwritten_while_read
  __syncwarp();
  out[INDEX] = t[threadIdx.x ^ 1];
}
KERNEL(fence_is_no_meeting) {
  __shared__ float t[128];
  t[threadIdx.x] = in[INDEX];
  __threadfence_block();
  out[INDEX] = t[threadIdx.x ^ 3];  // BUG fence_is_no_meeting
}
KERNEL(one_place_for_all_blocks) {
  if (threadIdx.x == 0) out[0] = blockIdx.x + in[0];  // BUG one_place_for_all_blocks
}
KERNEL(halo_in_place) {
  out[INDEX] += out[INDEX + 1];  // BUG halo_in_place
}
__device__ unsigned counter;
KERNEL(last_block_without_fence) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[INDEX] + 1;
    ticket = atomicAdd(&counter, 1);
  }
  __syncthreads();
  if (ticket == gridDim.x - 1 && threadIdx.x < gridDim.x)
    out[100 + threadIdx.x] = out[threadIdx.x];  // BUG last_block_without_fence
}
KERNEL(zeroed_by_one_block) {
  if (blockIdx.x == 0) out[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(out + threadIdx.x, in[INDEX]);  // BUG zeroed_by_one_block
}
KERNEL(flag_without_volatile) {
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) out[1] = 7; else out[2 + blockIdx.x] = out[1];  // BUG flag_without_volatile
  }
}
KERNEL(overlapping_tiles) {
  out[blockIdx.x * 100 + threadIdx.x] = blockIdx.x;  // BUG overlapping_tiles
}
KERNEL(fence_of_the_block_only) {
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = in[INDEX] + 1;
    __threadfence_block();
    ticket = atomicAdd(&counter, 1);
  }
  __syncthreads();
  if (ticket == gridDim.x - 1 && threadIdx.x < gridDim.x)
    out[100 + threadIdx.x] = out[threadIdx.x];  // BUG fence_of_the_block_only
}
