// Attention of one token a request over a paged cache, grouped queries, in two launches: the split
// and the reduction of SGLang's Triton kernels of decode attention, in fp32. A block has a part of a
// request's tokens and a head of the cache. Sixteen lanes take a token, eight dims each by one
// 16-byte load of k and of v, multiply all queries of the group, and keep a running largest score,
// sum and result for each; the block merges them in shared memory. Then a block a query merges the
// parts by their largest scores.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kDim = 128;
constexpr int kThreads = 128;
constexpr int kLanes = 16;  // of a token
constexpr int kVector = 8;  // of bfloat16 in 16 bytes
constexpr int kTokens = kThreads / kLanes;
constexpr int kPart = 256;  // tokens of a part
constexpr int kMostParts = 1024;
constexpr unsigned kAll = 0xffffffffu;

struct Cache {
  const __nv_bfloat16* k;
  const __nv_bfloat16* v;
  const int* page_table;
  const int* lengths;
  int kv_heads, page_size, max_pages;
  int part;  // tokens of a part
};

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <int kGroup>
__global__ void __launch_bounds__(kThreads) parts_kernel(float* __restrict__ results,
                                                         float2* __restrict__ sums,
                                                         const __nv_bfloat16* __restrict__ q,
                                                         Cache cache, float scale) {
  __shared__ float all_results[kTokens][kGroup][kDim];
  __shared__ float all_largest[kTokens][kGroup];
  __shared__ float all_sums[kTokens][kGroup];
  const int head = blockIdx.x;
  const int part = blockIdx.y;
  const int request = blockIdx.z;
  const int own = threadIdx.x / kLanes;
  const int at = threadIdx.x % kLanes * kVector;
  const int begin = part * cache.part;
  const int end = min(cache.lengths[request], begin + cache.part);
  if (begin >= end) return;

  const int64_t first_query = (static_cast<int64_t>(request) * cache.kv_heads + head) * kGroup;
  float query[kGroup][kVector], result[kGroup][kVector] = {}, largest[kGroup], sum[kGroup] = {};
#pragma unroll
  for (int row = 0; row < kGroup; ++row) {
    to_floats(*reinterpret_cast<const uint4*>(q + (first_query + row) * kDim + at), query[row]);
    largest[row] = -INFINITY;
  }
  for (int token = begin + own; token - own < end; token += kTokens) {
    // Beyond the end the last token is read again, and its score does not count.
    const int there = min(token, end - 1);
    const int64_t page = cache.page_table[request * cache.max_pages + there / cache.page_size];
    const int64_t slot = page * cache.page_size + there % cache.page_size;
    const int64_t offset = (slot * cache.kv_heads + head) * kDim + at;
    float keys[kVector], values[kVector];
    to_floats(*reinterpret_cast<const uint4*>(cache.k + offset), keys);
    to_floats(*reinterpret_cast<const uint4*>(cache.v + offset), values);
#pragma unroll
    for (int row = 0; row < kGroup; ++row) {
      float score = 0.0f;
#pragma unroll
      for (int i = 0; i < kVector; ++i) score += query[row][i] * keys[i];
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2) {
        score += __shfl_xor_sync(kAll, score, offset);
      }
      if (token >= end) continue;
      score *= scale;
      const float higher = fmaxf(largest[row], score);
      const float before = __expf(largest[row] - higher);
      const float share = __expf(score - higher);
      largest[row] = higher;
      sum[row] = sum[row] * before + share;
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        result[row][i] = result[row][i] * before + share * values[i];
      }
    }
  }

#pragma unroll
  for (int row = 0; row < kGroup; ++row) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) all_results[own][row][at + i] = result[row][i];
    all_largest[own][row] = largest[row];
    all_sums[own][row] = sum[row];
  }
  __syncthreads();
  const int64_t to = ((static_cast<int64_t>(request) * cache.kv_heads + head) * gridDim.y + part) *
                     kGroup;
  for (int row = 0; row < kGroup; ++row) {
    float highest = -INFINITY;
    for (int i = 0; i < kTokens; ++i) highest = fmaxf(highest, all_largest[i][row]);
    float total = 0.0f, whole = 0.0f;
    for (int i = 0; i < kTokens; ++i) {
      const float weight = __expf(all_largest[i][row] - highest);
      total += weight * all_sums[i][row];
      whole += weight * all_results[i][row][threadIdx.x];
    }
    results[(to + row) * kDim + threadIdx.x] = whole;
    if (threadIdx.x == 0) sums[to + row] = make_float2(highest, total);
  }
}

// A block a query, a thread a dim.
__global__ void __launch_bounds__(kDim) merge_kernel(__nv_bfloat16* __restrict__ out,
                                                     const float* __restrict__ results,
                                                     const float2* __restrict__ sums,
                                                     const int* __restrict__ lengths, int part,
                                                     int parts, int group) {
  const int64_t query = static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  const int count = (lengths[blockIdx.y] + part - 1) / part;
  const int64_t first = query / group * parts * group + query % group;
  float highest = -INFINITY, total = 0.0f, whole = 0.0f;
  for (int i = 0; i < count; ++i) {
    const float2 one = sums[first + i * group];
    const float higher = fmaxf(highest, one.x);
    const float before = __expf(highest - higher);
    const float weight = __expf(one.x - higher);
    highest = higher;
    total = total * before + weight * one.y;
    whole = whole * before + weight * results[(first + i * group) * kDim + threadIdx.x];
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
  const int64_t longest = max_pages * page_size;
  const int64_t room = 1 + kMostParts / (requests * kv_heads);
  const int64_t wanted = (longest + kPart - 1) / kPart;
  const int64_t most = wanted < room ? wanted : room;
  const int part = static_cast<int>((longest + most - 1) / most);
  const int parts = static_cast<int>((longest + part - 1) / part);
  const Cache cache{static_cast<const __nv_bfloat16*>(k_cache),
                    static_cast<const __nv_bfloat16*>(v_cache),
                    static_cast<const int*>(page_table),
                    static_cast<const int*>(lengths),
                    static_cast<int>(kv_heads),
                    static_cast<int>(page_size),
                    static_cast<int>(max_pages),
                    part};
  float* results = static_cast<float*>(workspace);
  float2* sums = reinterpret_cast<float2*>(results + requests * kv_heads * parts * group * kDim);
  const dim3 grid(static_cast<unsigned>(kv_heads), static_cast<unsigned>(parts),
                  static_cast<unsigned>(requests));
  const auto kernel = group == 4 ? parts_kernel<4> : parts_kernel<8>;
  kernel<<<grid, kThreads, 0, stream>>>(results, sums, static_cast<const __nv_bfloat16*>(q), cache,
                                        sm_scale);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  const dim3 queries(static_cast<unsigned>(kv_heads * group), static_cast<unsigned>(requests));
  merge_kernel<<<queries, kDim, 0, stream>>>(static_cast<__nv_bfloat16*>(out), results, sums,
                                             static_cast<const int*>(lengths), part, parts,
                                             static_cast<int>(group));
  return cudaGetLastError();
}
