// A thread turns eight pairs at once by vectors: both halves for neox, one run of sixteen for neighbours; rows of the cache follow.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T> struct alignas(16) Eight { T v[8]; };
template <typename T>
__device__ void pairs_of(Eight<T>& a, Eight<T>& b, const float* cos, const float* sin, bool neox) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    T& x = neox ? a.v[i] : (i < 4 ? a : b).v[2 * i % 8];
    T& y = neox ? b.v[i] : (i < 4 ? a : b).v[2 * i % 8 + 1];
    const float p = float(x), q = float(y);
    x = T(p * cos[i] - q * sin[i]);
    y = T(q * cos[i] + p * sin[i]);
  }
}
template <typename T>
__global__ __launch_bounds__(64) void heads_of_token(const int64_t* positions, T* query, T* key, const T* value, const float* table, T* k_cache, T* v_cache, const int64_t* loc, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t v0, int64_t kc0, int64_t vc0, bool neox) {
  const int64_t token = blockIdx.x;
  const float* row = table + positions[token] * rot;
  const int parts = rot / 16, half = rot / 2;
  for (int w = threadIdx.x; w < (heads + kv) * parts; w += 64) {
    const int head = w / parts, part = w % parts;
    T* x = head < heads ? query + token * q0 + head * q1 : key + token * k0 + (head - heads) * dim;
    auto* a = reinterpret_cast<Eight<T>*>(x + (neox ? part * 8 : part * 16));
    auto* b = reinterpret_cast<Eight<T>*>(x + (neox ? half + part * 8 : part * 16 + 8));
    Eight<T> first = *a, second = *b;
    pairs_of(first, second, row + part * 8, row + half + part * 8, neox);
    *a = first;
    *b = second;
  }
  __syncthreads();
  const int64_t slot = loc[token];
  for (int w = threadIdx.x; w < kv * dim / 8; w += 64) {
    reinterpret_cast<Eight<T>*>(k_cache + slot * kc0)[w] = reinterpret_cast<const Eight<T>*>(key + token * k0)[w];
    reinterpret_cast<Eight<T>*>(v_cache + slot * vc0)[w] = reinterpret_cast<const Eight<T>*>(value + token * v0)[w];
  }
}
extern "C" cudaError_t rope_and_kv_write(const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache, void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 1: heads_of_token<__half><<<unsigned(tokens), 64, 0, stream>>>((const int64_t*)positions, (__half*)query, (__half*)key, (const __half*)value, (const float*)cos_sin_cache, (__half*)k_cache, (__half*)v_cache, (const int64_t*)cache_loc, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox); break;
    case 2: heads_of_token<__nv_bfloat16><<<unsigned(tokens), 64, 0, stream>>>((const int64_t*)positions, (__nv_bfloat16*)query, (__nv_bfloat16*)key, (const __nv_bfloat16*)value, (const float*)cos_sin_cache, (__nv_bfloat16*)k_cache, (__nv_bfloat16*)v_cache, (const int64_t*)cache_loc, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
