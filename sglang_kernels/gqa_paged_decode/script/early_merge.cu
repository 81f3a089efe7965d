// Attention of one token a request over a paged cache, grouped queries, on tensor cores. A block has
// a part of a request's tokens and a head of the cache, a warp sixteen tokens at a time: a quarter of
// a warp loads each of them by 16-byte loads, all of k and v together, and the pages of the next
// sixteen before. Scores are queries by keys; which dims a thread holds is free as long as both agree,
// so loads are operands as they come. A thread then has the probabilities of the tokens and the query
// that the second product, of v transposed, takes from it: they are rounded to bfloat16 where they
// are, and v's neighbours of two tokens are put together by byte permutations. Blocks merge their
// warps in shared memory; a second launch, programmatic, merges parts by their largest scores, and is
// left out where there is one part.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kDim = 128;
constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kStep = 16;               // tokens of a warp's step
constexpr int kStride = kWarps * kStep;  // of a block's
constexpr int kQueries = 8;             // of a tile: of a group of four, half are zeros
constexpr int kPadded = kDim + 4;
constexpr int kBlocks = 396;            // three a multiprocessor
constexpr int kMostParts = 64;
constexpr float kLog2e = 1.4426950408889634f;
constexpr unsigned kAll = 0xffffffffu;

struct Cache {
  const __nv_bfloat16* k;
  const __nv_bfloat16* v;
  const int* page_table;
  const int* lengths;
  int kv_heads, group, page_bits, max_pages, parts;
};

// Tokens of each part of a request: whole steps of a block.
__device__ __forceinline__ int part_of(int length, int parts) {
  return (length + parts * kStride - 1) / (parts * kStride) * kStride;
}

__device__ __forceinline__ uint4 load_once(const __nv_bfloat16* address) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
      : "l"(address));
  return bits;
}

__device__ __forceinline__ void multiply(float (&sums)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Rounds two numbers to bfloat16, and leaves what they are then.
__device__ __forceinline__ uint32_t rounded(float& low, float& high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  low = __low2float(both);
  high = __high2float(both);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ uint32_t word(const uint4& bits, int which) {
  return which == 0 ? bits.x : which == 1 ? bits.y : which == 2 ? bits.z : bits.w;
}

// What a warp knows of its tokens: of query lane / 4 the largest score, in powers of two, and this
// lane's share of the sum; of queries lane % 4 * 2 and the next the results of sixteen dims.
struct State {
  float largest = -INFINITY;
  float sum = 0.0f;
  float results[8][4] = {};
};

__device__ __forceinline__ void attend(State& state, const uint4 (&query)[4],
                                       const uint4 (&low_key)[4], const uint4 (&high_key)[4],
                                       const uint4 (&values)[4][2], int left, float scale) {
  const int lane = threadIdx.x % kWarp;
  float low[4] = {}, high[4] = {};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    multiply(low, query[j].x, 0, query[j].y, 0, low_key[j].x, low_key[j].y);
    multiply(low, query[j].z, 0, query[j].w, 0, low_key[j].z, low_key[j].w);
    multiply(high, query[j].x, 0, query[j].y, 0, high_key[j].x, high_key[j].y);
    multiply(high, query[j].z, 0, query[j].w, 0, high_key[j].z, high_key[j].w);
  }
  float scores[4] = {low[0], low[1], high[0], high[1]};
  float highest = state.largest;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int token = lane % 4 * 2 + i % 2 + i / 2 * 8;
    scores[i] = token < left ? scores[i] * scale : -INFINITY;
    highest = fmaxf(highest, scores[i]);
  }
  highest = fmaxf(highest, __shfl_xor_sync(kAll, highest, 1));
  highest = fmaxf(highest, __shfl_xor_sync(kAll, highest, 2));
  const float before = exp2f(state.largest - highest);
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = exp2f(scores[i] - highest);
  const uint32_t b0 = rounded(scores[0], scores[1]);
  const uint32_t b1 = rounded(scores[2], scores[3]);
  state.sum = state.sum * before + ((scores[0] + scores[1]) + (scores[2] + scores[3]));
  if (__any_sync(kAll, highest > state.largest)) {
    const float even = __shfl_sync(kAll, before, lane % 4 * 8);
    const float odd = __shfl_sync(kAll, before, lane % 4 * 8 + 4);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      state.results[i][0] *= even;
      state.results[i][1] *= odd;
      state.results[i][2] *= even;
      state.results[i][3] *= odd;
    }
  }
  state.largest = highest;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t v0 = word(values[0][i / 4], i % 4), v1 = word(values[1][i / 4], i % 4);
    const uint32_t v2 = word(values[2][i / 4], i % 4), v3 = word(values[3][i / 4], i % 4);
    multiply(state.results[i], __byte_perm(v0, v1, 0x5410), __byte_perm(v0, v1, 0x7632),
             __byte_perm(v2, v3, 0x5410), __byte_perm(v2, v3, 0x7632), b0, b1);
  }
}

// Merges the warps of a block; thread d has dim d of each query.
__device__ __forceinline__ void merge_warps(State& state, __nv_bfloat16* out, float* results,
                                            float2* sums, int group) {
  __shared__ float all_results[kWarps][kQueries][kPadded];
  __shared__ float2 all_sums[kWarps][kQueries];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  state.sum += __shfl_xor_sync(kAll, state.sum, 1);
  state.sum += __shfl_xor_sync(kAll, state.sum, 2);
  if (lane % 4 == 0) all_sums[warp][lane / 4] = make_float2(state.largest, state.sum);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int dim = i / 4 * 64 + lane / 4 * 8 + i % 4 * 2;
    float* even = &all_results[warp][lane % 4 * 2][dim];
    *reinterpret_cast<float2*>(even) = make_float2(state.results[i][0], state.results[i][2]);
    *reinterpret_cast<float2*>(even + kPadded) =
        make_float2(state.results[i][1], state.results[i][3]);
  }
  __syncthreads();
  for (int row = 0; row < group; ++row) {
    float highest = all_sums[0][row].x;
#pragma unroll
    for (int i = 1; i < kWarps; ++i) highest = fmaxf(highest, all_sums[i][row].x);
    float total = 0.0f, whole = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      const float weight = exp2f(all_sums[i][row].x - highest);
      total += weight * all_sums[i][row].y;
      whole += weight * all_results[i][row][threadIdx.x];
    }
    if (out != nullptr) {
      out[row * kDim + threadIdx.x] = __float2bfloat16_rn(whole / total);
    } else {
      results[row * kDim + threadIdx.x] = whole;
      if (threadIdx.x == 0) sums[row] = make_float2(highest, total);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 3) parts_kernel(__nv_bfloat16* __restrict__ out,
                                                            float* __restrict__ results,
                                                            float2* __restrict__ sums,
                                                            const __nv_bfloat16* __restrict__ q,
                                                            Cache cache, float scale) {
  asm volatile("griddepcontrol.launch_dependents;");
  const int lane = threadIdx.x % kWarp;
  const int head = blockIdx.x;
  const int request = blockIdx.z;
  const int length = cache.lengths[request];
  const int part = part_of(length, cache.parts);
  const int end = min(length, static_cast<int>(blockIdx.y + 1) * part);
  int from = blockIdx.y * part + threadIdx.x / kWarp * kStep;
  if (static_cast<int>(blockIdx.y) * part >= end) return;

  const int64_t pair = static_cast<int64_t>(request) * cache.kv_heads + head;
  const int64_t first_query = pair * cache.group;
  uint4 query[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int row = min(lane / 4, cache.group - 1);
    query[j] = *reinterpret_cast<const uint4*>(q + (first_query + row) * kDim + j * 32 +
                                               lane % 4 * 8);
  }
  const int* table = cache.page_table + static_cast<int64_t>(request) * cache.max_pages;
  const int within = (1 << cache.page_bits) - 1;
  // Beyond the end the last token is read again, and its score does not count.
  const auto place = [&](int first) {
    const int token = min(first + lane % kStep, end - 1);
    return (table[token >> cache.page_bits] << cache.page_bits) + (token & within);
  };
  const auto offset = [&](int slot) {
    return (static_cast<int64_t>(slot) * cache.kv_heads + head) * kDim;
  };

  State state;
  int next = from < end ? place(from) : 0;
  for (; from < end; from += kStride) {
    const int slot = next;
    const __nv_bfloat16* low_key = cache.k + offset(__shfl_sync(kAll, slot, lane / 4)) +
                                   lane % 4 * 8;
    const __nv_bfloat16* high_key = cache.k + offset(__shfl_sync(kAll, slot, lane / 4 + 8)) +
                                    lane % 4 * 8;
    uint4 low[4], high[4], values[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      low[j] = load_once(low_key + j * 32);
      high[j] = load_once(high_key + j * 32);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = lane % 4 * 2 + i % 2 + i / 2 * 8;
      const __nv_bfloat16* value = cache.v + offset(__shfl_sync(kAll, slot, token)) + lane / 4 * 8;
      values[i][0] = load_once(value);
      values[i][1] = load_once(value + kDim / 2);
    }
    if (from + kStride < end) next = place(from + kStride);
    attend(state, query, low, high, values, end - from, scale * kLog2e);
  }
  const int64_t to = (pair * cache.parts + blockIdx.y) * cache.group;
  merge_warps(state, cache.parts == 1 ? out + first_query * kDim : nullptr, results + to * kDim,
              sums + to, cache.group);
}

// A block a query, a thread a dim.
__global__ void __launch_bounds__(kDim) merge_kernel(__nv_bfloat16* __restrict__ out,
                                                     const float* __restrict__ results,
                                                     const float2* __restrict__ sums,
                                                     const int* __restrict__ lengths, int parts,
                                                     int group) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int64_t query = static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const int length = lengths[blockIdx.y];
  const int part = part_of(length, parts);
  const int count = (length + part - 1) / part;
  const int64_t first = query / group * parts * group + query % group;
  float highest = -INFINITY;
#pragma unroll 8
  for (int i = 0; i < count; ++i) highest = fmaxf(highest, sums[first + i * group].x);
  float total = 0.0f, whole = 0.0f;
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const float2 one = sums[first + i * group];
    const float weight = exp2f(one.x - highest);
    total += weight * one.y;
    whole += weight * results[(first + i * group) * kDim + threadIdx.x];
  }
  out[query * kDim + threadIdx.x] = __float2bfloat16_rn(whole / total);
}

}  // namespace

extern "C" cudaError_t gqa_paged_decode(void* out, const void* q, const void* k_cache,
                                        const void* v_cache, const void* page_table,
                                        const void* lengths, void* workspace, int64_t requests,
                                        int64_t kv_heads, int64_t group, int64_t head_dim,
                                        int64_t page_size, int64_t max_pages, int64_t other_pages,
                                        int64_t spread, float sm_scale, int dtype,
                                        cudaStream_t stream) {
  if (dtype != 2 || head_dim != kDim) return cudaErrorInvalidValue;
  const int longest = static_cast<int>(max_pages * page_size);
  const int pairs = static_cast<int>(requests * kv_heads);
  const int parts = max(1, min(min(kMostParts, kBlocks / pairs), (longest + kStride - 1) / kStride));
  const Cache cache{static_cast<const __nv_bfloat16*>(k_cache),
                    static_cast<const __nv_bfloat16*>(v_cache),
                    static_cast<const int*>(page_table),
                    static_cast<const int*>(lengths),
                    static_cast<int>(kv_heads),
                    static_cast<int>(group),
                    page_size == 1 ? 0 : page_size == 16 ? 4 : 6,
                    static_cast<int>(max_pages),
                    parts};
  float* results = static_cast<float*>(workspace);
  float2* sums = reinterpret_cast<float2*>(results + pairs * parts * group * kDim);
  const dim3 grid(static_cast<unsigned>(kv_heads), static_cast<unsigned>(parts),
                  static_cast<unsigned>(requests));
  parts_kernel<<<grid, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(out), results, sums,
                                              static_cast<const __nv_bfloat16*>(q), cache,
                                              sm_scale);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess || parts == 1) return status;

  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(kv_heads * group), static_cast<unsigned>(requests));
  config.blockDim = dim3(kDim);
  config.stream = stream;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, merge_kernel, static_cast<__nv_bfloat16*>(out),
                            static_cast<const float*>(results), static_cast<const float2*>(sums),
                            static_cast<const int*>(lengths), parts, static_cast<int>(group));
}
