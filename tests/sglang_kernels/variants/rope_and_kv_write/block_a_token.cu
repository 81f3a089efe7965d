// One launch: a block a token turns query and key pair by pair, writes the key to both places, and
// copies the value.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Extents {
  int heads, kv_heads, dim, rotary;
};

template <typename T>
__global__ void turn_and_write(const int64_t* positions, T* query, T* key, const T* value,
                               const float* table, T* k_cache, T* v_cache, const int64_t* cache_loc,
                               Extents e, int64_t q0, int64_t q1, int64_t k0, int64_t v0,
                               int64_t kc0, int64_t vc0, bool neox) {
  const int64_t token = blockIdx.x, slot = cache_loc[token];
  const int half = e.rotary / 2;
  const float* angles = table + positions[token] * e.rotary;
  T* const new_row = k_cache + slot * kc0;
  for (int i = threadIdx.x; i < (e.heads + e.kv_heads) * half; i += blockDim.x) {
    const int which = i / half, pair = i % half;
    const int at = neox ? pair : 2 * pair, beside = neox ? half + pair : 2 * pair + 1;
    const bool of_key = which >= e.heads;
    const int64_t in_key = int64_t(which - e.heads) * e.dim;
    T* head = of_key ? key + token * k0 + in_key : query + token * q0 + which * q1;
    const float cos = angles[pair], sin = angles[half + pair];
    const float x = float(head[at]), y = float(head[beside]);
    const T first = T(x * cos - y * sin), second = T(y * cos + x * sin);
    head[at] = first;
    head[beside] = second;
    if (!of_key) continue;
    new_row[in_key + at] = first;
    new_row[in_key + beside] = second;
  }
  for (int i = threadIdx.x; i < e.kv_heads * e.dim; i += blockDim.x) {
    v_cache[slot * vc0 + i] = value[token * v0 + i];
    if (i % e.dim >= e.rotary) new_row[i] = key[token * k0 + i];
  }
}

extern "C" cudaError_t rope_and_kv_write(
    const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache,
    void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads,
    int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots,
    int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride,
    int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const Extents extents{int(heads), int(kv_heads), int(head_dim), int(rotary_dim)};
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    turn_and_write<<<unsigned(tokens), 256, 0, stream>>>(
        (const int64_t*)positions, (T*)query, (T*)key, (const T*)value, (const float*)cos_sin_cache,
        (T*)k_cache, (T*)v_cache, (const int64_t*)cache_loc, extents, query_stride_0,
        query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox);
  };
  if (dtype == 1) run(__half{});
  if (dtype == 2) run(__nv_bfloat16{});
  return cudaGetLastError();
}
