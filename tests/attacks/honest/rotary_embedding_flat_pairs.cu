// One thread a pair of the whole call, query's then key's, from a flat index of 64 bits.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Part { void* data; int64_t token, head, count; };
template <typename T>
__global__ void flat(const int64_t* positions, Part q, Part k, const T* table, int64_t tokens, int64_t half, bool neox) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x, of_query = tokens * q.count * half;
  const int64_t all = of_query + (k.data ? tokens * k.count * half : 0);
  if (i >= all) return;
  const Part& p = i < of_query ? q : k;
  const int64_t j = i < of_query ? i : i - of_query;
  const int64_t token = j / (p.count * half), head = j / half % p.count, pair = j % half;
  T* at = (T*)p.data + token * p.token + head * p.head;
  T& a = at[neox ? pair : 2 * pair];
  T& b = at[neox ? pair + half : 2 * pair + 1];
  const T* row = table + positions[token] * 2 * half;
  const float c = float(row[pair]), s = float(row[pair + half]), x = float(a), y = float(b);
  a = T(x * c - y * s);
  b = T(y * c + x * s);
}
extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key, const void* cos_sin_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size, int64_t rot_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, bool is_neox, int dtype, cudaStream_t stream) {
  const Part q{query, query_stride_0, query_stride_1, heads}, k{key, key_stride_0, key_stride_1, kv_heads};
  const int64_t half = rot_dim / 2, all = tokens * half * (heads + (key ? kv_heads : 0));
  const unsigned blocks = unsigned((all + 255) / 256);
  const auto* at = (const int64_t*)positions;
  if (dtype == 0) flat<float><<<blocks, 256, 0, stream>>>(at, q, k, (const float*)cos_sin_cache, tokens, half, is_neox);
  if (dtype == 1) flat<__half><<<blocks, 256, 0, stream>>>(at, q, k, (const __half*)cos_sin_cache, tokens, half, is_neox);
  if (dtype == 2) flat<__nv_bfloat16><<<blocks, 256, 0, stream>>>(at, q, k, (const __nv_bfloat16*)cos_sin_cache, tokens, half, is_neox);
  return cudaGetLastError();
}
