// Blocks of four warps with roles: queries, key and its cache, value; grid-stride over tokens; angles through shuffles.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T>
__device__ void head_by_warp(T* x, T* also, const float* row, int rot, int dim, int lane, bool neox) {
  const int half = rot / 2;
  for (int first = 0; first < half; first += 32) {
    const int pair = first + lane;
    if (pair < half) {
      const int i = neox ? pair : 2 * pair, j = i + (neox ? half : 1);
      const float2 z = make_float2(float(x[i]), float(x[j])), w = make_float2(__ldg(row + pair), __ldg(row + half + pair));
      const T u = T(z.x * w.x - z.y * w.y), v = T(z.x * w.y + z.y * w.x);
      x[i] = u;
      x[j] = v;
      if (also) also[i] = u, also[j] = v;
    }
  }
  if (also)
    for (int i = rot + lane; i < dim; i += 32) also[i] = x[i];
}
template <typename T>
__global__ void roles(const int64_t* positions, T* q, T* k, const T* v, const float* table, T* kc, T* vc, const int64_t* loc, int64_t tokens, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t v0, int64_t kc0, int64_t vc0, bool neox) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t t = blockIdx.x; t < tokens; t += gridDim.x) {
    const float* row = table + positions[t] * rot;
    if (warp < 2) {
      for (int h = warp; h < heads; h += 2) head_by_warp<T>(q + t * q0 + h * q1, nullptr, row, rot, dim, lane, neox);
    } else if (warp == 2) {
      for (int h = 0; h < kv; ++h) head_by_warp<T>(k + t * k0 + h * dim, kc + loc[t] * kc0 + h * dim, row, rot, dim, lane, neox);
    } else {
      const auto* from = reinterpret_cast<const unsigned long long*>(v + t * v0);
      auto* to = reinterpret_cast<unsigned long long*>(vc + loc[t] * vc0);
      for (int i = lane; i < kv * dim / 4; i += 32) to[i] = from[i];
    }
  }
}
extern "C" cudaError_t rope_and_kv_write(const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache, void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const unsigned grid = static_cast<unsigned>(tokens > 792 ? 792 : tokens);
  const auto *p = (const int64_t*)positions, *loc = (const int64_t*)cache_loc;
  const auto* table = (const float*)cos_sin_cache;
  const int h = int(heads), kv = int(kv_heads), d = int(head_dim), r = int(rotary_dim);
  if (dtype == 1) roles<<<grid, 128, 0, stream>>>(p, (__half*)query, (__half*)key, (const __half*)value, table, (__half*)k_cache, (__half*)v_cache, loc, tokens, h, kv, d, r, query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox);
  if (dtype == 2) roles<<<grid, 128, 0, stream>>>(p, (__nv_bfloat16*)query, (__nv_bfloat16*)key, (const __nv_bfloat16*)value, table, (__nv_bfloat16*)k_cache, (__nv_bfloat16*)v_cache, loc, tokens, h, kv, d, r, query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, is_neox);
  return cudaGetLastError();
}
