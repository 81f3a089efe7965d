// The three tasks of sglang_kernels in fp16: how the baseline of each computes, and candidates as somebody would propose
// them after one another. The library is built with fast maths: here its approximate functions are called by name.
#include <cuda_pipeline.h>

#include "common.cuh"

namespace {

constexpr int SMS = 132;

__device__ __forceinline__ void wait_for_earlier_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void release_later_grids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Eight halves, each handled by itself.
struct alignas(16) Eight {
  __half item[8];
};

__device__ __forceinline__ Eight load_eight(const __half* at) {
  const uint4 bits = *reinterpret_cast<const uint4*>(at);
  return *reinterpret_cast<const Eight*>(&bits);
}

__device__ __forceinline__ void store_eight(__half* at, const Eight& eight) {
  *reinterpret_cast<uint4*>(at) = *reinterpret_cast<const uint4*>(&eight);
}

// Past L1, and gone from L2 before what is read again.
__device__ __forceinline__ Pack load_once(const Pack* at) {
  const uint4 bits = __ldcs(reinterpret_cast<const uint4*>(at));
  return *reinterpret_cast<const Pack*>(&bits);
}

__device__ __forceinline__ void store_once(Pack* at, const Pack& pack) {
  __stcs(reinterpret_cast<uint4*>(at), *reinterpret_cast<const uint4*>(&pack));
}

// ---- silu_and_mul: in [a, 2b], out [a, b] ----

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

__device__ __forceinline__ __half2 gated(__half2 gate, __half2 up) {
  const float2 x = __half22float2(gate), y = __half22float2(up);
  return __floats2half2_rn(silu(x.x) * y.x, silu(x.y) * y.y);
}

__device__ __forceinline__ Pack gated(const Pack& gate, const Pack& up) {
  Pack result;
#pragma unroll
  for (int i = 0; i < 4; ++i) result.h[i] = gated(gate.h[i], up.h[i]);
  return result;
}

__global__ void silu_base(__half* __restrict__ out, const __half* __restrict__ in, int d) {
  const __half* gate = in + int64_t{blockIdx.x} * 2 * d;
  const __half* up = gate + d;
  __half* row = out + int64_t{blockIdx.x} * d;
  const int thread = threadIdx.x, threads = blockDim.x;
  wait_for_earlier_grids();
#pragma unroll 1
  for (int i = thread; i < d / 8; i += threads) {
    const Eight x = load_eight(gate + 8 * i), y = load_eight(up + 8 * i);
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) result.item[k] = __float2half_rn(silu(__half2float(x.item[k])) * __half2float(y.item[k]));
    store_eight(row + 8 * i, result);
  }
  const int rest = d % (threads * 8), start = d - rest;
#pragma unroll 1
  for (int i = start + thread; i < d; i += threads)
    row[i] = __float2half_rn(silu(__half2float(gate[i])) * __half2float(up[i]));
  release_later_grids();
}

// A block a row, two elements a thread at a time.
__global__ void __launch_bounds__(256) silu_pairs(__half2* out, const __half2* in, int pairs) {
  const __half2* gate = in + int64_t{blockIdx.x} * 2 * pairs;
  __half2* row = out + int64_t{blockIdx.x} * pairs;
  for (int i = threadIdx.x; i < pairs; i += 256) row[i] = gated(gate[i], gate[pairs + i]);
}

// A warp a row, four rows a block.
__global__ void __launch_bounds__(128) silu_warps(Pack* __restrict__ out, const Pack* __restrict__ in, int rows, int vectors) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  const Pack* gate = in + int64_t{row} * 2 * vectors;
  Pack* result = out + int64_t{row} * vectors;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < vectors; i += 32) result[i] = gated(gate[i], gate[vectors + i]);
}

// As many blocks as the GPU holds go over all vectors.
__global__ void __launch_bounds__(256) silu_few(Pack* out, const Pack* in, unsigned total, unsigned vectors) {
  for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < total; i += gridDim.x * 256) {
    const Pack* gate = in + i + int64_t{i / vectors} * vectors;
    out[i] = gated(gate[0], gate[vectors]);
  }
}

// The next tile of both halves is copied to shared memory while this one is computed.
__global__ void __launch_bounds__(128) silu_copied(Pack* out, const Pack* in, int vectors) {
  __shared__ Pack tiles[2][2][128];
  const int t = threadIdx.x, steps = (vectors + 127) / 128;
  const Pack* gate = in + int64_t{blockIdx.x} * 2 * vectors;
  const auto fetch = [&](int step) {
    const int i = step * 128 + t;
    if (i < vectors) {
      __pipeline_memcpy_async(&tiles[step % 2][0][t], gate + i, 16);
      __pipeline_memcpy_async(&tiles[step % 2][1][t], gate + vectors + i, 16);
    }
    __pipeline_commit();
  };
  fetch(0);
  for (int step = 0; step < steps; ++step) {
    fetch(step + 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    const int i = step * 128 + t;
    if (i < vectors) out[int64_t{blockIdx.x} * vectors + i] = gated(tiles[step % 2][0][t], tiles[step % 2][1][t]);
    __syncthreads();
  }
}

// Blocks along the row, every value read and written once.
__global__ void __launch_bounds__(128) silu_streams(Pack* out, const Pack* in, int vectors) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= vectors) return;
  const Pack* gate = in + int64_t{blockIdx.y} * 2 * vectors + i;
  const Pack x = load_once(gate), y = load_once(gate + vectors);
  store_once(out + int64_t{blockIdx.y} * vectors + i, gated(x, y));
}

// ---- fused_add_rmsnorm: in weight [b], input [a, b], residual [a, b]; out normed [a, b], sums [a, b], and room for [a] floats
// (the original writes both in place) ----

constexpr float EPS = 1e-6f;

struct Norm {
  Pack *out, *sums;
  float* scales;
  const Pack *weight, *input, *residual;
  int rows, vectors;
};

Norm norm_of(void* out, const void* in, int64_t a, int64_t b) {
  const int64_t vectors = b / 8;
  Pack* o = static_cast<Pack*>(out);
  const Pack* i = static_cast<const Pack*>(in);
  return {o, o + a * vectors, reinterpret_cast<float*>(o + 2 * a * vectors), i, i + vectors, i + (a + 1) * vectors,
          static_cast<int>(a), static_cast<int>(vectors)};
}

__device__ __forceinline__ Pack added(const Pack& x, const Pack& r, float& squares) {
  Pack sum;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 p = __half22float2(x.h[i]), q = __half22float2(r.h[i]);
    const float2 s = make_float2(p.x + q.x, p.y + q.y);
    squares += s.x * s.x + s.y * s.y;
    sum.h[i] = __floats2half2_rn(s.x, s.y);
  }
  return sum;
}

__device__ __forceinline__ Pack scaled(const Pack& sum, const Pack& weight, float scale) {
  Pack result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 s = __half22float2(sum.h[i]), w = __half22float2(weight.h[i]);
    result.h[i] = __floats2half2_rn(s.x * scale * w.x, s.y * scale * w.y);
  }
  return result;
}

struct alignas(16) Sums {
  float item[8];
};

// Sums as fp32 in shared memory, the squares reduced in two steps.
__global__ void norm_base(__half* __restrict__ out, __half* __restrict__ sums_out, const __half* __restrict__ weight,
                          const __half* __restrict__ input, const __half* __restrict__ residual, int h) {
  extern __shared__ float4 shared_memory[];
  float* warp_sums = reinterpret_cast<float*>(shared_memory);
  const int warps = blockDim.y, threads = warps * 32, thread = threadIdx.y * 32 + threadIdx.x;
  float* sums = warp_sums + (warps + 3) / 4 * 4;
  const int64_t row = int64_t{blockIdx.x} * h;
  const int rounds = (h + threads * 8 - 1) / (threads * 8);
  wait_for_earlier_grids();
  float squares = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * 8;
    if (at < h) {
      const Eight x = load_eight(input + row + at);
      Eight r = load_eight(residual + row + at);
      Sums sum;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sum.item[i] = __half2float(x.item[i]) + __half2float(r.item[i]);
        squares += sum.item[i] * sum.item[i];
        r.item[i] = __float2half_rn(sum.item[i]);
      }
      store_eight(sums_out + row + at, r);
      *reinterpret_cast<Sums*>(sums + at) = sum;
    }
  }
  squares = lanes_sum(squares);
  warp_sums[threadIdx.y] = squares;
  __syncthreads();
  if (threadIdx.y == 0) {
    squares = lanes_sum(threadIdx.x < static_cast<unsigned>(warps) ? warp_sums[threadIdx.x] : 0.0f);
    warp_sums[0] = squares;
  }
  __syncthreads();
  const float scale = rsqrtf(warp_sums[0] / static_cast<float>(h) + EPS);
  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * 8;
    if (at < h) {
      const Eight w = load_eight(weight + at);
      const Sums sum = *reinterpret_cast<const Sums*>(sums + at);
      Eight result;
#pragma unroll
      for (int i = 0; i < 8; ++i) result.item[i] = __float2half_rn(sum.item[i] * scale * __half2float(w.item[i]));
      store_eight(out + row + at, result);
    }
  }
  release_later_grids();
}

// A warp a row; the second pass reads the sums again.
__global__ void __launch_bounds__(128) norm_warps(const Norm n) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n.rows) return;
  const int64_t start = int64_t{row} * n.vectors;
  float squares = 0.0f;
#pragma unroll 4
  for (int i = lane; i < n.vectors; i += 32) n.sums[start + i] = added(n.input[start + i], n.residual[start + i], squares);
  const float scale = rsqrtf(lanes_sum(squares) / (8 * n.vectors) + EPS);
#pragma unroll 4
  for (int i = lane; i < n.vectors; i += 32) n.out[start + i] = scaled(n.sums[start + i], n.weight[i], scale);
}

// Sums as fp16 in shared memory, and a small block.
__global__ void __launch_bounds__(256) norm_halves(const Norm n) {
  extern __shared__ Pack kept[];
  __shared__ float room[8];
  const int64_t start = int64_t{blockIdx.x} * n.vectors;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < n.vectors; i += 256) {
    kept[i] = added(n.input[start + i], n.residual[start + i], squares);
    n.sums[start + i] = kept[i];
  }
  const float scale = rsqrtf(block_sum(squares, room) / (8 * n.vectors) + EPS);
  for (int i = threadIdx.x; i < n.vectors; i += 256) n.out[start + i] = scaled(kept[i], n.weight[i], scale);
}

// Two rows a block, 256 threads each, up to four vectors a thread in registers.
__global__ void __launch_bounds__(512) norm_two_rows(const Norm n) {
  __shared__ float room[2][8];
  const int half = threadIdx.x / 256, t = threadIdx.x % 256, row = 2 * blockIdx.x + half;
  const int64_t start = int64_t{row} * n.vectors;
  const bool within = row < n.rows;
  Pack kept[4];
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = t + 256 * k;
    if (within && i < n.vectors) n.sums[start + i] = kept[k] = added(n.input[start + i], n.residual[start + i], squares);
  }
  squares = lanes_sum(squares);
  if (t % 32 == 0) room[half][t / 32] = squares;
  __syncthreads();
  squares = 0.0f;
#pragma unroll
  for (int w = 0; w < 8; ++w) squares += room[half][w];
  const float scale = rsqrtf(squares / (8 * n.vectors) + EPS);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = t + 256 * k;
    if (within && i < n.vectors) n.out[start + i] = scaled(kept[k], n.weight[i], scale);
  }
}

// Blocks that stay take row after row; the weight is read once a block.
__global__ void __launch_bounds__(256) norm_few(const Norm n) {
  extern __shared__ Pack weights[];
  __shared__ float room[8];
  for (int i = threadIdx.x; i < n.vectors; i += 256) weights[i] = n.weight[i];
  for (int row = blockIdx.x; row < n.rows; row += gridDim.x) {
    const int64_t start = int64_t{row} * n.vectors;
    Pack kept[4];
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = threadIdx.x + 256 * k;
      if (i < n.vectors) n.sums[start + i] = kept[k] = added(n.input[start + i], n.residual[start + i], squares);
    }
    const float scale = rsqrtf(block_sum(squares, room) / (8 * n.vectors) + EPS);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = threadIdx.x + 256 * k;
      if (i < n.vectors) n.out[start + i] = scaled(kept[k], weights[i], scale);
    }
    __syncthreads();
  }
}

// Two launches: sums and scales, then every vector by itself.
__global__ void __launch_bounds__(512) norm_scales(const Norm n) {
  __shared__ float room[16];
  const int64_t start = int64_t{blockIdx.x} * n.vectors;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < n.vectors; i += 512)
    n.sums[start + i] = added(n.input[start + i], n.residual[start + i], squares);
  squares = block_sum(squares, room);
  if (threadIdx.x == 0) n.scales[blockIdx.x] = rsqrtf(squares / (8 * n.vectors) + EPS);
}

__global__ void __launch_bounds__(256) norm_apply(const Norm n) {
  const int i = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
  if (i >= n.vectors) return;
  const int64_t at = int64_t{row} * n.vectors + i;
  n.out[at] = scaled(n.sums[at], n.weight[i], n.scales[row]);
}

// ---- merge_state_v2: in v_a, v_b [a, b, 128], s_a, s_b [a, b] floats; out v [a, b, 128], s [a, b] floats ----

constexpr int PACKS = 16;  // of a head

struct Merge {
  Pack* v;
  float* s;
  const Pack *v_a, *v_b;
  const float *s_a, *s_b;
  int heads;  // of all tokens
};

Merge merge_of(void* out, const void* in, int64_t a, int64_t b) {
  const int64_t heads = a * b;
  Pack* v = static_cast<Pack*>(out);
  const Pack* v_a = static_cast<const Pack*>(in);
  const float* s_a = reinterpret_cast<const float*>(v_a + 2 * heads * PACKS);
  return {v, reinterpret_cast<float*>(v + heads * PACKS), v_a, v_a + heads * PACKS, s_a, s_a + heads, static_cast<int>(heads)};
}

__device__ __forceinline__ Pack mixed(const Pack& a, const Pack& b, float of_a, float of_b) {
  Pack result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 p = __half22float2(a.h[i]), q = __half22float2(b.h[i]);
    result.h[i] = __floats2half2_rn(p.x * of_a + q.x * of_b, p.y * of_a + q.y * of_b);
  }
  return result;
}

struct Weights {
  float a, b, lse;
};

__device__ __forceinline__ Weights weights_of(float a, float b) {
  const float most = fmaxf(a, b), e_a = __expf(a - most), e_b = __expf(b - most), total = e_a + e_b;
  const float by = __fdividef(1.0f, total);
  return {e_a * by, e_b * by, __logf(total) + most};
}

__global__ void merge_base(__half* out, float* out_lse, const __half* prefix, const float* prefix_lse, const __half* suffix,
                           const float* suffix_lse, unsigned tokens, unsigned heads, unsigned head_size) {
  const unsigned threads_per_head = head_size / 8, index = blockIdx.x * 128 + threadIdx.x;
  if (index >= tokens * heads * threads_per_head) return;
  const unsigned token_head = index / threads_per_head, pack = index % threads_per_head;
  const unsigned token = token_head / heads, head = token_head % heads, row = token * heads + head;
  const int64_t at = int64_t{row} * head_size;
  float p_lse = prefix_lse[row], s_lse = suffix_lse[row];
  p_lse = isinf(p_lse) ? -INFINITY : p_lse;
  s_lse = isinf(s_lse) ? -INFINITY : s_lse;
  const float most = fmaxf(p_lse, s_lse), p_se = __expf(p_lse - most), s_se = __expf(s_lse - most), total = p_se + s_se;
  const float p_scale = __fdividef(p_se, total), s_scale = __fdividef(s_se, total);
  if (pack * 8 < head_size) {
    const Eight p = load_eight(prefix + at + pack * 8), s = load_eight(suffix + at + pack * 8);
    Eight result;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      result.item[i] = __float2half_rn(__half2float(p.item[i]) * p_scale + __half2float(s.item[i]) * s_scale);
    store_eight(out + at + pack * 8, result);
  }
  if (pack == 0) out_lse[row] = __logf(total) + most;
}

// A block a head.
__global__ void __launch_bounds__(PACKS) merge_blocks(const Merge m) {
  const int head = blockIdx.y * gridDim.x + blockIdx.x, i = head * PACKS + threadIdx.x;
  const Weights w = weights_of(m.s_a[head], m.s_b[head]);
  m.v[i] = mixed(m.v_a[i], m.v_b[i], w.a, w.b);
  if (threadIdx.x == 0) m.s[head] = w.lse;
}

// The first lane of a head works out its weights and hands them round.
__global__ void __launch_bounds__(256) merge_lanes(const Merge m) {
  const int i = blockIdx.x * 256 + threadIdx.x, head = i / PACKS;
  const bool within = head < m.heads;
  Weights w = {};
  if (within && i % PACKS == 0) {
    w = weights_of(m.s_a[head], m.s_b[head]);
    m.s[head] = w.lse;
  }
  w.a = __shfl_sync(ALL, w.a, 0, PACKS);
  w.b = __shfl_sync(ALL, w.b, 0, PACKS);
  if (within) m.v[i] = mixed(m.v_a[i], m.v_b[i], w.a, w.b);
}

// Weights of a block's 32 heads go through shared memory.
__global__ void __launch_bounds__(512) merge_table(const Merge m) {
  __shared__ float2 table[32];
  const int first = blockIdx.x * 32;
  if (threadIdx.x < 32 && first + threadIdx.x < m.heads) {
    const Weights w = weights_of(m.s_a[first + threadIdx.x], m.s_b[first + threadIdx.x]);
    table[threadIdx.x] = make_float2(w.a, w.b);
    m.s[first + threadIdx.x] = w.lse;
  }
  __syncthreads();
  const int i = blockIdx.x * 512 + threadIdx.x;
  if (i >= m.heads * PACKS) return;
  const float2 w = table[threadIdx.x / PACKS];
  m.v[i] = mixed(m.v_a[i], m.v_b[i], w.x, w.y);
}

// Two neighbouring packs a thread, loaded before the weights are known.
__global__ void __launch_bounds__(128) merge_wide(const Merge m) {
  const int pair = blockIdx.x * 128 + threadIdx.x, head = pair / (PACKS / 2);
  if (head >= m.heads) return;
  const Pack a0 = m.v_a[2 * pair], a1 = m.v_a[2 * pair + 1], b0 = m.v_b[2 * pair], b1 = m.v_b[2 * pair + 1];
  const Weights w = weights_of(m.s_a[head], m.s_b[head]);
  m.v[2 * pair] = mixed(a0, b0, w.a, w.b);
  m.v[2 * pair + 1] = mixed(a1, b1, w.a, w.b);
  if (pair % (PACKS / 2) == 0) m.s[head] = w.lse;
}

// As many blocks as the GPU holds, and streaming loads and stores.
__global__ void __launch_bounds__(256) merge_few(const Merge m) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < m.heads * PACKS; i += gridDim.x * 256) {
    const int head = i / PACKS;
    const Pack a = load_once(m.v_a + i), b = load_once(m.v_b + i);
    const Weights w = weights_of(m.s_a[head], m.s_b[head]);
    store_once(m.v + i, mixed(a, b, w.a, w.b));
    if (i % PACKS == 0) m.s[head] = w.lse;
  }
}

}  // namespace

LAUNCHER(sglang_silu_baseline) {
  const int vectors = static_cast<int>(b / 8);
  silu_base<<<a, vectors < 1024 ? vectors : 1024, 0, stream>>>(static_cast<__half*>(out), static_cast<const __half*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(sglang_silu_pairs) {
  silu_pairs<<<a, 256, 0, stream>>>(static_cast<__half2*>(out), static_cast<const __half2*>(in), b / 2);
  return cudaGetLastError();
}

LAUNCHER(sglang_silu_warps) {
  silu_warps<<<ceil_div(a, 4), 128, 0, stream>>>(static_cast<Pack*>(out), static_cast<const Pack*>(in), a, b / 8);
  return cudaGetLastError();
}

LAUNCHER(sglang_silu_few_blocks) {
  const unsigned blocks = ceil_div(a * b / 8, 256), most = SMS * 8;
  silu_few<<<blocks < most ? blocks : most, 256, 0, stream>>>(static_cast<Pack*>(out), static_cast<const Pack*>(in), a * b / 8,
                                                              b / 8);
  return cudaGetLastError();
}

LAUNCHER(sglang_silu_copied) {
  silu_copied<<<a, 128, 0, stream>>>(static_cast<Pack*>(out), static_cast<const Pack*>(in), b / 8);
  return cudaGetLastError();
}

LAUNCHER(sglang_silu_streams) {
  silu_streams<<<dim3(ceil_div(b / 8, 128), a), 128, 0, stream>>>(static_cast<Pack*>(out), static_cast<const Pack*>(in), b / 8);
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_baseline) {
  const Norm n = norm_of(out, in, a, b);
  const int threads = n.vectors < 1024 ? n.vectors : 1024, warps = (threads + 31) / 32;
  const int bytes = ((warps + 3) / 4 * 4 + static_cast<int>(b)) * static_cast<int>(sizeof(float));
  const cudaError_t error = cudaFuncSetAttribute(norm_base, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  norm_base<<<a, dim3(32, warps), bytes, stream>>>(
      reinterpret_cast<__half*>(n.out), reinterpret_cast<__half*>(n.sums), reinterpret_cast<const __half*>(n.weight),
      reinterpret_cast<const __half*>(n.input), reinterpret_cast<const __half*>(n.residual), b);
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_warps) {
  norm_warps<<<ceil_div(a, 4), 128, 0, stream>>>(norm_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_halves) {
  norm_halves<<<a, 256, 2 * b, stream>>>(norm_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_two_rows) {
  norm_two_rows<<<ceil_div(a, 2), 512, 0, stream>>>(norm_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_few_blocks) {
  norm_few<<<a < SMS * 4 ? a : SMS * 4, 256, 2 * b, stream>>>(norm_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_norm_two_launches) {
  norm_scales<<<a, 512, 0, stream>>>(norm_of(out, in, a, b));
  norm_apply<<<dim3(ceil_div(b / 8, 256), a), 256, 0, stream>>>(norm_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_baseline) {
  const Merge m = merge_of(out, in, a, b);
  merge_base<<<ceil_div(a * b * PACKS, 128), 128, 0, stream>>>(
      reinterpret_cast<__half*>(m.v), m.s, reinterpret_cast<const __half*>(m.v_a), m.s_a, reinterpret_cast<const __half*>(m.v_b),
      m.s_b, a, b, 128);
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_blocks) {
  merge_blocks<<<dim3(b, a), PACKS, 0, stream>>>(merge_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_lanes) {
  merge_lanes<<<ceil_div(a * b * PACKS, 256), 256, 0, stream>>>(merge_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_table) {
  merge_table<<<ceil_div(a * b, 32), 512, 0, stream>>>(merge_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_wide) {
  merge_wide<<<ceil_div(a * b * PACKS / 2, 128), 128, 0, stream>>>(merge_of(out, in, a, b));
  return cudaGetLastError();
}

LAUNCHER(sglang_merge_few_blocks) {
  const unsigned blocks = ceil_div(a * b * PACKS, 256), most = SMS * 8;
  merge_few<<<blocks < most ? blocks : most, 256, 0, stream>>>(merge_of(out, in, a, b));
  return cudaGetLastError();
}
