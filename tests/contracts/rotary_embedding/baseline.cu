// One block a token: threads take pairs of elements of the query's heads, then of the key's.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Row {
  int64_t token_stride;
  int64_t head_stride;
  int64_t heads;
};

template <typename T>
__device__ void turn(T* head, const T* table, int pair, int half, bool neox) {
  const int first = neox ? pair : 2 * pair, second = neox ? pair + half : 2 * pair + 1;
  const float cos = float(table[pair]), sin = float(table[half + pair]);
  const float x = float(head[first]), y = float(head[second]);
  head[first] = T(x * cos - y * sin);
  head[second] = T(y * cos + x * sin);
}

template <typename T>
__global__ void rotate(const int64_t* positions, T* query, T* key, const T* cos_sin_cache, Row q,
                       Row k, int half, bool neox) {
  const int64_t token = blockIdx.x;
  const T* table = cos_sin_cache + positions[token] * 2 * half;
  for (int64_t i = threadIdx.x; i < q.heads * half; i += blockDim.x)
    turn(query + token * q.token_stride + i / half * q.head_stride, table, int(i % half), half, neox);
  for (int64_t i = threadIdx.x; i < k.heads * half; i += blockDim.x)
    turn(key + token * k.token_stride + i / half * k.head_stride, table, int(i % half), half, neox);
}

template <typename T>
void start(const void* positions, void* query, void* key, const void* table, int64_t tokens, Row q,
           Row k, int half, bool neox, cudaStream_t stream) {
  const int64_t pairs = q.heads * half;
  const unsigned threads = unsigned(pairs < 512 ? (pairs + 31) / 32 * 32 : 512);
  rotate<T><<<unsigned(tokens), threads, 0, stream>>>(
      static_cast<const int64_t*>(positions), static_cast<T*>(query), static_cast<T*>(key),
      static_cast<const T*>(table), q, k, half, neox);
}

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  const Row q{query_stride_0, query_stride_1, heads}, k{key_stride_0, key_stride_1, kv_heads};
  const int half = int(rot_dim / 2);
  if (dtype == 1)
    start<__half>(positions, query, key, cos_sin_cache, tokens, q, k, half, is_neox, stream);
  else
    start<__nv_bfloat16>(positions, query, key, cos_sin_cache, tokens, q, k, half, is_neox, stream);
  return cudaGetLastError();
}
