// What a GPU does besides arithmetic: control flow, warps, shared memory, barriers, atomics, calls.
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

// Reductions of a row: a tree, shuffles, both with different block sizes.
extern "C" __global__ void tree_sum(float *out, const float *in, int n) {
  extern __shared__ float tile[];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[(size_t)blockIdx.x * n + i];
  tile[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) tile[threadIdx.x] += tile[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = tile[0];
}
template <typename T> __device__ T warp_sum(T v) {
  for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
  return v;
}
extern "C" __global__ void rmsnorm(__nv_bfloat16 *out, const __nv_bfloat16 *in,
                                   const __nv_bfloat16 *weight, int n, float eps) {
  __shared__ float part[32];
  float sum = 0;
  const __nv_bfloat16 *row = in + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = __bfloat162float(row[i]);
    sum += x * x;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < (blockDim.x + 31) / 32 ? part[threadIdx.x] : 0.0f;
    sum = warp_sum(sum);
    if (threadIdx.x == 0) part[0] = rsqrtf(sum / n + eps);
  }
  __syncthreads();
  const float scale = part[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[(size_t)blockIdx.x * n + i] =
        __float2bfloat16(__bfloat162float(row[i]) * scale * __bfloat162float(weight[i]));
}
extern "C" __global__ void warp_functions(uint32_t *out, const int *in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  const int v = in[i];
  uint32_t *mine = out + i * 16;
  mine[0] = __shfl_up_sync(~0u, v, 3);
  mine[1] = __shfl_down_sync(~0u, v, 5);
  mine[2] = __shfl_sync(~0u, v, v & 31);
  mine[3] = __shfl_xor_sync(~0u, v, 7, 8);
  mine[4] = __shfl_up_sync(~0u, v, 2, 16);
  mine[5] = __ballot_sync(~0u, v & 1);
  mine[6] = __any_sync(~0u, v == 3) * 2 + __all_sync(~0u, v >= 0);
  mine[7] = __match_any_sync(~0u, v & 7);
  int same;
  mine[8] = __match_all_sync(~0u, v >> 30, &same);
  mine[9] = same;
  mine[10] = __reduce_add_sync(~0u, v);
  mine[11] = __reduce_max_sync(~0u, v);
  mine[12] = __reduce_xor_sync(~0u, (unsigned)v);
  if (lane < 20) {
    const uint32_t here = __activemask();
    mine[13] = here;
    mine[14] = __reduce_min_sync(0xfffffu, v);
    __syncwarp(0xfffffu);
    mine[15] = __shfl_sync(0xfffffu, v, 19);
  }
}
extern "C" __global__ void partial_warp(float *out, const float *in, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  out[i] = warp_sum(in[i]);
}

// Divergence: loops of different lengths, continue, break, nested, then a meeting.
extern "C" __global__ void collatz(int *out, const int *in) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned v = in[i];
  int steps = 0;
  while (v != 1) {
    if (v % 2 == 0) { v /= 2; ++steps; continue; }
    for (int k = 0; k < 3; ++k) {
      if (k == (int)(v % 5)) break;
      steps += k;
    }
    v = 3 * v + 1;
    ++steps;
    if (steps > 500) break;
  }
  out[i] = steps + __popc(__ballot_sync(~0u, steps & 1));
}
__device__ __noinline__ int fold(int a, int b) { return a * 31 + b; }
extern "C" __global__ void table(int *out, const int *in) {
  const int i = threadIdx.x, v = in[i];
  int r = 0;
  switch (v) {
    case 0: r = fold(i, 1); break;
    case 1: r = i / 7; break;
    case 2: r = i % 5; break;
    case 3: r = __clz(i); break;
    case 4: r = __brev(i); break;
    case 5: r = __ffs(i); break;
    case 6: r = fold(fold(i, 2), 3); break;
    case 7: for (int k = 0; k < i; ++k) r += k; break;
    case 8: r = i << (i & 31); break;
    default: r = -1;
  }
  out[i] = r;
}

// Memory: local arrays with a computed index, constants, variables, structures, bytes.
__constant__ int offsets[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 5;
__device__ const float scales[4] = {0.5f, 1.5f, 2.5f, 3.5f};
extern "C" __global__ void local_array(int *out, const int *in, int n) {
  int stack[16];
  for (int k = 0; k < 16; ++k) stack[k] = k * offsets[k & 7];
  for (int k = 0; k < n; ++k) stack[(in[threadIdx.x] + k) & 15] += k;
  int sum = 0;
  for (int k = 0; k < 16; ++k) sum = sum * 3 + stack[(k + in[threadIdx.x]) & 15];
  out[threadIdx.x] = sum + counter + (int)scales[threadIdx.x & 3];
}
struct Wide { int a; double b; char c[5]; short d; };
__device__ __noinline__ Wide make(int i) { Wide w{i, i * 0.5, {1, 2, 3, 4, (char)i}, (short)-i}; return w; }
extern "C" __global__ void structures(double *out, Wide by_value, int pick) {
  const Wide w = make(threadIdx.x);
  out[threadIdx.x] = w.a + w.b + w.c[4] + w.d + by_value.b + by_value.c[pick] + by_value.d;
}
extern "C" __global__ void bytes(uint8_t *out, const int8_t *in, int n) {
  const int i = threadIdx.x;
  if (i < n) out[i] = (uint8_t)(in[i] < 0 ? -in[i] * 2 : in[i] + 1);
}

// Generic pointers that are shared for some lanes and global for others.
extern "C" __global__ void mixed(int *out, int *in) {
  __shared__ int tile[128];
  tile[threadIdx.x] = threadIdx.x * 10;
  __syncthreads();
  int *p = in[threadIdx.x] & 1 ? &tile[127 - threadIdx.x] : &in[threadIdx.x];
  atomicAdd(p, 1000);
  __syncthreads();
  out[threadIdx.x] = *p;
}
extern "C" __global__ void atomics(int *sums, float *floats, unsigned *order, unsigned long long *big,
                                   const int *in, int n) {
  __shared__ int bins[8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  if (i < n) {
    atomicAdd(&bins[in[i] & 7], 1);
    atomicMax(&sums[8], in[i]);
    atomicMin(&sums[9], in[i]);
    atomicXor(&sums[10], in[i]);
    atomicAdd(floats, (float)in[i]);
    order[atomicInc(&order[n], 0xffffffffu)] = i;
    atomicAdd(big, (unsigned long long)in[i] << 20);
    int old = sums[11], seen;
    do { seen = old; old = atomicCAS(&sums[11], seen, seen + in[i]); } while (old != seen);
  }
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&sums[threadIdx.x], bins[threadIdx.x]);
}
extern "C" __global__ void last_block(float *out, float *parts, unsigned *ticket, const float *in) {
  __shared__ bool last;
  const float sum = warp_sum(in[blockIdx.x * 32 + threadIdx.x]);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    float total = 0;
    for (int k = threadIdx.x; k < gridDim.x; k += 32) total += __ldcg(&parts[k]);
    total = warp_sum(total);
    if (threadIdx.x == 0) *out = total;
  }
}
extern "C" __global__ void votes(int *out, const int *in) {
  const int v = in[blockIdx.x * blockDim.x + threadIdx.x];
  const int count = __syncthreads_count(v > 0), all = __syncthreads_and(v > -5),
            any = __syncthreads_or(v > 90);
  if (threadIdx.x == 0) { out[blockIdx.x * 3] = count; out[blockIdx.x * 3 + 1] = all; out[blockIdx.x * 3 + 2] = any; }
}
extern "C" __global__ void groups(int *out, const int *in) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = in[block.thread_rank()];
  for (int k = tile.size() / 2; k > 0; k /= 2) v += tile.shfl_down(v, k);
  block.sync();
  out[block.thread_rank()] = tile.shfl(v, 0);
}
extern "C" __global__ void coordinates(uint32_t *out) {
  const dim3 t = threadIdx, b = blockIdx;
  const uint32_t thread = (t.z * blockDim.y + t.y) * blockDim.x + t.x;
  const uint32_t block = (b.z * gridDim.y + b.y) * gridDim.x + b.x;
  const uint32_t i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  uint32_t lane, warp, below;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  out[i] = (t.x | t.y << 4 | t.z << 8 | b.x << 12 | b.y << 16 | b.z << 20) + lane * 3 + warp * 5 + below;
}
extern "C" __global__ void bank_conflicts(int *out, int stride) {
  __shared__ int tile[32 * 33];
  tile[threadIdx.x * stride] = threadIdx.x;
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * stride];
}

extern "C" __global__ void add_vectors(float4 *sums, float *found) {
  const float lane = threadIdx.x;
  const float4 old = atomicAdd(sums, make_float4(1, 0, lane, 1));
  atomicAdd((float2 *)sums, make_float2(1, lane));
  atomicAdd((float2 *)sums + 1, make_float2(lane, 0));
  found[threadIdx.x] = 2 * old.w;
}
