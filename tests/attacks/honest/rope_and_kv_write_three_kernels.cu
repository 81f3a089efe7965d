// Query, key with its cache, and value as three launches of flat threads; the value as 16-byte words.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T, bool kNeox, bool kStore>
__global__ void turn(T* data, T* cache, const int64_t* loc, const int64_t* positions, const float* table, int64_t pairs, int half, int heads, int64_t s0, int64_t s1, int64_t cs, int dim) {
  const int64_t i = blockIdx.x * 128ll + threadIdx.x;
  if (i >= pairs) return;
  const int pair = int(i % half), head = int(i / half % heads);
  const int64_t token = i / half / heads;
  const float c = table[positions[token] * 2 * half + pair], s = table[positions[token] * 2 * half + half + pair];
  T* x = data + token * s0 + head * s1;
  const int j = kNeox ? pair : 2 * pair, k = kNeox ? pair + half : 2 * pair + 1;
  const float a = float(x[j]), b = float(x[k]);
  const T u = T(__fmaf_rn(a, c, -(b * s))), v = T(__fmaf_rn(b, c, a * s));
  x[j] = u;
  x[k] = v;
  if constexpr (kStore) {
    T* to = cache + loc[token] * cs + head * dim;
    to[j] = u;
    to[k] = v;
    for (int rest = 2 * half + pair; rest < dim; rest += half) to[rest] = x[rest];
  }
}
__global__ void copy(const uint4* from, uint4* to, const int64_t* loc, int64_t tokens, int words, int64_t fs, int64_t ts) {
  const int64_t token = blockIdx.x * 4ll + threadIdx.y;
  if (token < tokens)
    for (int w = threadIdx.x; w < words; w += 32) to[loc[token] * ts + w] = from[token * fs + w];
}
template <typename T, bool kNeox>
cudaError_t three(const int64_t* positions, T* query, T* key, const void* value, const float* table, T* kc, void* vc, const int64_t* loc, int64_t tokens, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t v0, int64_t kcs, int64_t vcs, cudaStream_t stream) {
  const int half = rot / 2;
  const auto blocks = [](int64_t n, int per) { return unsigned((n + per - 1) / per); };
  turn<T, kNeox, false><<<blocks(tokens * heads * half, 128), 128, 0, stream>>>(query, nullptr, nullptr, positions, table, tokens * heads * half, half, heads, q0, q1, 0, dim);
  turn<T, kNeox, true><<<blocks(tokens * kv * half, 128), 128, 0, stream>>>(key, kc, loc, positions, table, tokens * kv * half, half, kv, k0, dim, kcs, dim);
  copy<<<blocks(tokens, 4), dim3(32, 4), 0, stream>>>((const uint4*)value, (uint4*)vc, loc, tokens, kv * dim / 8, v0 / 8, vcs / 8);
  return cudaGetLastError();
}
extern "C" cudaError_t rope_and_kv_write(const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache, void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const auto with = [&](auto* q, auto kernel) {
    using T = std::remove_pointer_t<decltype(q)>;
    return kernel((const int64_t*)positions, q, (T*)key, value, (const float*)cos_sin_cache, (T*)k_cache, v_cache, (const int64_t*)cache_loc, tokens, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride, value_stride, k_cache_stride, v_cache_stride, stream);
  };
  if (dtype == 1) return is_neox ? with((__half*)query, three<__half, true>) : with((__half*)query, three<__half, false>);
  return is_neox ? with((__nv_bfloat16*)query, three<__nv_bfloat16, true>) : with((__nv_bfloat16*)query, three<__nv_bfloat16, false>);
}
