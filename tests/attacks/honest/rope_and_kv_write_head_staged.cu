// A block a head and token: the head goes to shared memory as floats, a barrier, then each element from there.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void staged(const int64_t* positions, T* query, T* key, const T* value, const float* table, T* k_cache, T* v_cache, const int64_t* loc, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t v0, int64_t kc0, int64_t vc0, bool neox) {
  __shared__ float head_of[512];
  const int64_t all = heads + 2 * kv, token = blockIdx.x / all;
  const int which = int(blockIdx.x % all);
  if (which >= heads + kv) {
    const int64_t at = (which - heads - kv) * int64_t(dim);
    for (int i = threadIdx.x; i < dim; i += blockDim.x) v_cache[loc[token] * vc0 + at + i] = value[token * v0 + at + i];
    return;
  }
  const bool of_key = which >= heads;
  T* x = of_key ? key + token * k0 + (which - heads) * int64_t(dim) : query + token * q0 + which * q1;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) head_of[i] = static_cast<float>(x[i]);
  __syncthreads();
  const float* row = table + positions[token] * rot;
  const int half = rot / 2;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    T result = x[i];
    if (i < rot) {
      const int pair = neox ? (i < half ? i : i - half) : i >> 1;
      const bool second = neox ? i >= half : i & 1;
      const float other = head_of[neox ? (second ? pair : pair + half) : i ^ 1];
      result = static_cast<T>(head_of[i] * row[pair] + (second ? other : -other) * row[half + pair]);
      x[i] = result;
    }
    if (of_key) k_cache[loc[token] * kc0 + (which - heads) * int64_t(dim) + i] = result;
  }
}
extern "C" cudaError_t rope_and_kv_write(const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache, void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const unsigned blocks = unsigned(tokens * (heads + 2 * kv_heads));
  auto run = [&](auto zero) {
    using T = decltype(zero);
    staged<T><<<blocks, 128, 0, stream>>>((const int64_t*)positions, (T*)query, (T*)key, (const T*)value, (const float*)cos_sin_cache, (T*)k_cache, (T*)v_cache, (const int64_t*)cache_loc, (int)heads, (int)kv_heads, (int)head_dim, (int)rotary_dim, query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox);
    return cudaGetLastError();
  };
  return dtype == 1 ? run(__half()) : run(__nv_bfloat16());
}
