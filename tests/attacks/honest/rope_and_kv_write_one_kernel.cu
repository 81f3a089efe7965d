// One kernel: a block a token turns the query in place, turns the key in registers and stores it twice, copies the value.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Step { int64_t q0, q1, k, v, kc, vc; };
template <typename T>
__global__ void all_in_one(const int64_t* positions, T* query, T* key, const T* value, const float* table, T* k_cache, T* v_cache, const int64_t* loc, int heads, int kv_heads, int dim, int rot, Step step, bool neox) {
  const int64_t token = blockIdx.x, slot = loc[token];
  const float* row = table + positions[token] * rot;
  const int half = rot / 2;
  for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
    const int pair = i % half, one = neox ? pair : 2 * pair, two = neox ? pair + half : one + 1;
    T* x = query + token * step.q0 + i / half * step.q1;
    const float a = float(x[one]), b = float(x[two]);
    x[one] = T(a * row[pair] - b * row[half + pair]);
    x[two] = T(b * row[pair] + a * row[half + pair]);
  }
  for (int i = threadIdx.x; i < kv_heads * half; i += blockDim.x) {
    const int pair = i % half, base = i / half * dim, one = base + (neox ? pair : 2 * pair), two = neox ? one + half : one + 1;
    T* x = key + token * step.k;
    const float a = float(x[one]), b = float(x[two]);
    x[one] = k_cache[slot * step.kc + one] = T(a * row[pair] - b * row[half + pair]);
    x[two] = k_cache[slot * step.kc + two] = T(b * row[pair] + a * row[half + pair]);
  }
  const int still = dim - rot;
  for (int i = threadIdx.x; i < kv_heads * still; i += blockDim.x) {
    const int at = i / still * dim + rot + i % still;
    k_cache[slot * step.kc + at] = key[token * step.k + at];
  }
  for (int i = threadIdx.x; i < kv_heads * dim; i += blockDim.x) v_cache[slot * step.vc + i] = value[token * step.v + i];
}
extern "C" cudaError_t rope_and_kv_write(const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache, void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const Step step{query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride};
  const auto go = [&](auto* q) {
    using T = std::remove_pointer_t<decltype(q)>;
    all_in_one<<<unsigned(tokens), 256, 0, stream>>>((const int64_t*)positions, q, (T*)key, (const T*)value, (const float*)cos_sin_cache, (T*)k_cache, (T*)v_cache, (const int64_t*)cache_loc, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), step, is_neox);
  };
  if (dtype == 1) go((__half*)query);
  else go((__nv_bfloat16*)query);
  return cudaGetLastError();
}
