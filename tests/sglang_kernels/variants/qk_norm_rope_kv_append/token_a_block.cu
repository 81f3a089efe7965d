// An honest qk_norm_rope_kv_append: a block a token, a warp a head at a time, a lane some pairs; nothing
// is rounded before the end, and scales divide.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

struct Extents {
  int heads, kv_heads, dim, page_size;
  int64_t query, key, value, k_page, v_page;
  float eps;
};

__device__ void put(__nv_bfloat16* to, float value, const float*) { *to = value; }
__device__ void put(__nv_fp8_e4m3* to, float value, const float* scale) {
  *to = __nv_fp8_e4m3(scale ? __fdiv_rn(value, *scale) : value);
}

template <typename C, typename I>
__global__ void token_a_block(__nv_bfloat16* query, __nv_bfloat16* key, const __nv_bfloat16* value,
                              C* k_cache, C* v_cache, const __nv_bfloat16* q_weight,
                              const __nv_bfloat16* k_weight, const float* table, const I* positions,
                              const I* slots, const float* k_scale, const float* v_scale,
                              Extents e) {
  const int64_t token = blockIdx.x, slot = slots[token];
  const int lane = threadIdx.x % 32, half = e.dim / 2;
  const float* angles = table + int64_t(positions[token]) * e.dim;
  const int64_t row = slot % e.page_size * e.kv_heads;
  for (int head = threadIdx.x / 32; head < e.heads + 2 * e.kv_heads; head += blockDim.x / 32) {
    const int of_key = head - e.heads, of_value = of_key - e.kv_heads;
    if (of_value >= 0) {
      C* to = v_cache + slot / e.page_size * e.v_page + (row + of_value) * e.dim;
      const __nv_bfloat16* from = value + token * e.value + of_value * e.dim;
      for (int i = lane; i < e.dim; i += 32) put(to + i, float(from[i]), v_scale);
      continue;
    }
    __nv_bfloat16* from =
        of_key < 0 ? query + token * e.query + head * e.dim : key + token * e.key + of_key * e.dim;
    float sum = 0.0f;
    for (int i = lane; i < e.dim; i += 32) sum += float(from[i]) * float(from[i]);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const float scale = rsqrtf(sum / e.dim + e.eps);
    const __nv_bfloat16* weight = of_key < 0 ? q_weight : k_weight;
    C* kept = k_cache + slot / e.page_size * e.k_page + (row + of_key) * e.dim;
    for (int i = lane; i < half; i += 32) {
      const float x = float(from[i]) * scale * float(weight[i]);
      const float y = float(from[half + i]) * scale * float(weight[half + i]);
      const float first = x * angles[i] - y * angles[half + i];
      const float second = y * angles[i] + x * angles[half + i];
      from[i] = first;
      from[half + i] = second;
      if (of_key < 0) continue;
      put(kept + i, first, k_scale);
      put(kept + half + i, second, k_scale);
    }
  }
}

extern "C" cudaError_t qk_norm_rope_kv_append(
    void* query, void* key, const void* value, void* k_cache, void* v_cache, const void* q_weight,
    const void* k_weight, const void* cos_sin_cache, const void* positions, const void* slots,
    const void* k_scale, const void* v_scale, int64_t tokens, int64_t heads, int64_t kv_heads,
    int64_t head_dim, int64_t max_position, int64_t pages, int64_t page_size,
    int64_t query_stride, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride,
    int64_t v_cache_stride, float eps, int dtype, int c_dtype, int i_dtype, cudaStream_t stream) {
  const Extents e{int(heads), int(kv_heads), int(head_dim), int(page_size), query_stride,
                  key_stride, value_stride, k_cache_stride, v_cache_stride, eps};
  const auto run = [&](auto of_cache, auto of_index) {
    using C = decltype(of_cache);
    using I = decltype(of_index);
    token_a_block<<<unsigned(tokens), 256, 0, stream>>>(
        (__nv_bfloat16*)query, (__nv_bfloat16*)key, (const __nv_bfloat16*)value, (C*)k_cache,
        (C*)v_cache, (const __nv_bfloat16*)q_weight, (const __nv_bfloat16*)k_weight,
        (const float*)cos_sin_cache, (const I*)positions, (const I*)slots, (const float*)k_scale,
        (const float*)v_scale, e);
  };
  if (c_dtype == 2 && i_dtype == 7) run(__nv_bfloat16{}, int32_t{});
  if (c_dtype == 2 && i_dtype == 8) run(__nv_bfloat16{}, int64_t{});
  if (c_dtype == 3 && i_dtype == 7) run(__nv_fp8_e4m3{}, int32_t{});
  if (c_dtype == 3 && i_dtype == 8) run(__nv_fp8_e4m3{}, int64_t{});
  return cudaGetLastError();
}
