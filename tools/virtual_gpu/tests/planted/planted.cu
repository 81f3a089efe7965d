// Planted bugs, one a kernel: the line marked BUG is where the sanitizer must point. Each kernel has
// the parameters (float* out, const float* in, int n); both buffers have exactly n floats.
#include <cassert>
#include <cuda_pipeline.h>
#include <mma.h>
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(write_off_by_one) {
  if (INDEX <= n) out[INDEX] = 1;  // BUG write_off_by_one
}
KERNEL(read_off_by_one) {
  if (INDEX < n)
    out[INDEX] = in[INDEX + 1];  // BUG read_off_by_one
}
KERNEL(read_before_buffer) {
  out[INDEX] = in[INDEX - 1];  // BUG read_before_buffer
}
KERNEL(no_bound) {
  out[INDEX] = 2;  // BUG no_bound
}
KERNEL(vector_tail) {
  int i = INDEX * 4;
  if (i <= n) reinterpret_cast<float4*>(out)[INDEX] = make_float4(1, 2, 3, 4);  // BUG vector_tail
}
KERNEL(misaligned_vector_write) {
  if (INDEX < 4) *reinterpret_cast<float4*>(out + 1 + INDEX * 4) = make_float4(1, 2, 3, 4);  // BUG misaligned_vector_write
}
KERNEL(misaligned_vector_read) {
  if (INDEX >= 4) return;
  float2 x = *reinterpret_cast<const float2*>(in + 1 + INDEX * 2);  // BUG misaligned_vector_read
  out[INDEX] = x.x + x.y;
}
KERNEL(misaligned_shared) {
  __shared__ __align__(16) char tile[1024];
  *reinterpret_cast<volatile int*>(tile + 2 + threadIdx.x * 4) = n;  // BUG misaligned_shared
  out[INDEX] = 1;
}
KERNEL(null_pointer) {
  const float* nothing = n < 0 ? in : nullptr;
  out[INDEX] = *(volatile const float*)(nothing + threadIdx.x);  // BUG null_pointer
}
KERNEL(wild_pointer) {
  out[INDEX] = *(volatile const float*)((const char*)in + (1ll << 40));  // BUG wild_pointer
}
KERNEL(index_overflow) {
  int i = (INDEX + 1) * 65536 * 32768;
  out[i] = 1;  // BUG index_overflow
}
KERNEL(shared_overrun) {
  __shared__ float tile[64];
  tile[threadIdx.x + n / 2] = 1;  // BUG shared_overrun
  __syncthreads();
  out[INDEX] = tile[0];
}
KERNEL(dynamic_shared_too_small) {
  extern __shared__ float room[];
  room[threadIdx.x] = 1;  // BUG dynamic_shared_too_small
  __syncthreads();
  out[INDEX] = room[0];
}
KERNEL(local_overrun) {
  float mine[8];
  for (int i = 0; i < 8; i++) mine[i] = in[i];
  for (int i = 0; i < n; i++) mine[(i * 7) & 15] += i;  // BUG local_overrun
  for (int i = 0; i < 8; i++) out[i] = mine[(i + n) & 7];
}
KERNEL(missing_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[INDEX];
  out[INDEX] = tile[127 - threadIdx.x];  // BUG missing_barrier
}
KERNEL(missing_second_barrier) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[INDEX];
  __syncthreads();
  out[INDEX] = tile[(threadIdx.x + 32) % 128];
  tile[threadIdx.x] = -1;  // BUG missing_second_barrier
}
KERNEL(two_writers) {
  __shared__ int last;
  last = threadIdx.x / 32;  // BUG two_writers
  __syncthreads();
  out[INDEX] = last;
}
KERNEL(race_in_reduction) {
  __shared__ float sums[128];
  sums[threadIdx.x] = in[INDEX];
  __syncthreads();
  for (int half = 64; half > 0; half /= 2)
    if (threadIdx.x < half)
      sums[threadIdx.x] += sums[threadIdx.x + half];  // BUG race_in_reduction
  if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}
KERNEL(warp_barrier_for_block) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[INDEX];
  __syncwarp();
  out[INDEX] = tile[127 - threadIdx.x];  // BUG warp_barrier_for_block
}
KERNEL(race_by_counter) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (in[INDEX] > -1)
    count = count + 1;  // BUG race_by_counter
  __syncthreads();
  out[INDEX] = count;
}
KERNEL(last_warp_without_fence) {
  __shared__ float part[128];
  __shared__ unsigned arrived;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  part[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  unsigned before = threadIdx.x % 32 ? 0 : atomicAdd(&arrived, 1);
  __threadfence_block();
  if (__shfl_sync(~0u, before, 0) == 3) out[threadIdx.x] = part[127 - threadIdx.x];  // BUG last_warp_without_fence
}
KERNEL(every_warp_counts_and_reads) {
  __shared__ float part[128];
  __shared__ unsigned arrived;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  __threadfence_block();
  if (threadIdx.x % 32 == 0) out[threadIdx.x] = atomicAdd(&arrived, 1);
  __syncwarp();
  part[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = part[127 - threadIdx.x];  // BUG every_warp_counts_and_reads
}
KERNEL(race_of_bytes) {
  __shared__ char flags[128];
  flags[threadIdx.x] = threadIdx.x + 1;
  if (threadIdx.x == 41) out[0] = *reinterpret_cast<const int*>(flags + 4 * (n / 100 - 1));  // BUG race_of_bytes
}
KERNEL(race_by_volatile_in_a_warp) {
  __shared__ float t[128];
  volatile float* v = t;
  v[threadIdx.x] = in[INDEX];
  for (int half = 16; half > 0; half /= 2)
    if (threadIdx.x % 32 < half)
      v[threadIdx.x] = v[threadIdx.x] + v[threadIdx.x + half];  // BUG race_by_volatile_in_a_warp
  out[INDEX] = v[threadIdx.x];
}
KERNEL(torn_barrier) {
  if (threadIdx.x % 32 < 16) __syncthreads();  // BUG torn_barrier
  out[INDEX] = 1;
}
KERNEL(barrier_in_loop) {
  for (int i = 0; i < (int)threadIdx.x % 3 + 1; i++) {
    out[INDEX] += i;
    __syncthreads();  // BUG barrier_in_loop
  }
}
KERNEL(shuffle_in_branch) {
  float v = in[INDEX];
  if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0xffffffffu, v, 1);  // BUG shuffle_in_branch
  out[INDEX] = v;
}
KERNEL(vote_in_branch) {
  int v = 0;
  if (threadIdx.x % 32 < 7) v = __ballot_sync(0xffffffffu, in[INDEX] > 0);  // BUG vote_in_branch
  out[INDEX] = v;
}
KERNEL(unnamed_lane) {
  out[INDEX] = __shfl_sync(0x0000ffffu, in[INDEX], 0);  // BUG unnamed_lane
}
KERNEL(syncwarp_in_branch) {
  if (threadIdx.x % 32 < 8) {
    out[INDEX] = 1;
    __syncwarp();  // BUG syncwarp_in_branch
  }
  out[INDEX] += 1;
}
KERNEL(half_a_warp_multiplies) {
  unsigned x = 0, y = 0;
  if (threadIdx.x % 32 < 16)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%2}, {%2}, {%0,%1};"
                 : "+r"(x), "+r"(y) : "r"(n));  // BUG half_a_warp_multiplies
  out[INDEX] = x + y;
}
KERNEL(missing_copy_wait) {
  __shared__ float tile[128];
  __pipeline_memcpy_async(tile + threadIdx.x, in + INDEX, 4);
  __pipeline_commit();
  out[INDEX] = tile[threadIdx.x];  // BUG missing_copy_wait
}
KERNEL(one_copy_too_few) {
  __shared__ float tile[2][128];
  for (int i = 0; i < 2; i++) {
    __pipeline_memcpy_async(&tile[i][threadIdx.x], in + threadIdx.x, 4);
    __pipeline_commit();
  }
  __pipeline_wait_prior(1);
  out[INDEX] = tile[1][threadIdx.x];  // BUG one_copy_too_few
}
KERNEL(copy_without_barrier) {
  __shared__ float tile[128];
  __pipeline_memcpy_async(tile + threadIdx.x, in + INDEX, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[INDEX] = tile[127 - threadIdx.x];  // BUG copy_without_barrier
}
KERNEL(copy_out_of_bounds) {
  __shared__ float tile[128];
  __pipeline_memcpy_async(tile + threadIdx.x, in + n + INDEX, 4);  // BUG copy_out_of_bounds
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[INDEX] = tile[threadIdx.x];
}
KERNEL(endless_loop) {
  volatile float* flag = out;
  while (*flag == 0) {}  // BUG endless_loop
}
KERNEL(failed_assertion) {
  assert(threadIdx.x < n / 2);  // BUG failed_assertion
  out[INDEX] = 1;
}
KERNEL(trapped) {
  if (in[INDEX] >= 0) __trap();  // BUG trapped
}
