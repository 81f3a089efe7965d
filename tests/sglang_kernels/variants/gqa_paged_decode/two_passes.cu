// An honest gqa_paged_decode: a warp a query, all scores by two passes over k, then a thread four dims.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kDim = 128;

struct Rows {
  const __nv_bfloat16* cache;
  const int* table;
  int heads, head, page_size;

  __device__ const __nv_bfloat16* at(int token) const {
    const int64_t slot = static_cast<int64_t>(table[token / page_size]) * page_size +
                         token % page_size;
    return cache + (slot * heads + head) * kDim;
  }
};

__device__ float score_of(const float (&query)[4], const __nv_bfloat16* key) {
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum += query[i] * __bfloat162float(key[threadIdx.x * 4 + i]);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

__global__ void query_kernel(__nv_bfloat16* out, const __nv_bfloat16* q, const __nv_bfloat16* k,
                             const __nv_bfloat16* v, const int* page_table, const int* lengths,
                             int heads, int group, int page_size, int max_pages, float scale) {
  const int request = blockIdx.y;
  const int64_t row = static_cast<int64_t>(request) * heads * group + blockIdx.x;
  const int head = blockIdx.x / group;
  const int* table = page_table + static_cast<int64_t>(request) * max_pages;
  const Rows keys{k, table, heads, head, page_size}, values{v, table, heads, head, page_size};
  float query[4];
  for (int i = 0; i < 4; ++i) {
    query[i] = scale * __bfloat162float(q[row * kDim + threadIdx.x * 4 + i]);
  }
  float largest = -INFINITY;
  for (int token = 0; token < lengths[request]; ++token) {
    largest = fmaxf(largest, score_of(query, keys.at(token)));
  }
  float sum = 0.0f, result[4] = {};
  for (int token = 0; token < lengths[request]; ++token) {
    const float p = expf(score_of(query, keys.at(token)) - largest);
    sum += p;
    for (int i = 0; i < 4; ++i) {
      result[i] += p * __bfloat162float(values.at(token)[threadIdx.x * 4 + i]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    out[row * kDim + threadIdx.x * 4 + i] = __float2bfloat16_rn(result[i] / sum);
  }
}

}  // namespace

extern "C" cudaError_t gqa_paged_decode(void* out, const void* q, const void* k_cache,
                                        const void* v_cache, const void* page_table,
                                        const void* lengths, void*, int64_t requests,
                                        int64_t kv_heads, int64_t group, int64_t,
                                        int64_t page_size, int64_t max_pages, int64_t, int64_t,
                                        float sm_scale, int, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(kv_heads * group), static_cast<unsigned>(requests));
  query_kernel<<<grid, 32, 0, stream>>>(
      static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(q),
      static_cast<const __nv_bfloat16*>(k_cache), static_cast<const __nv_bfloat16*>(v_cache),
      static_cast<const int*>(page_table), static_cast<const int*>(lengths),
      static_cast<int>(kv_heads), static_cast<int>(group), static_cast<int>(page_size),
      static_cast<int>(max_pages), sm_scale);
  return cudaGetLastError();
}
