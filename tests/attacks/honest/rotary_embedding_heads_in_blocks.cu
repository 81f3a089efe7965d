// A block a token and head (x runs over both); a thread keeps its pair in registers and a barrier stands before the stores.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void element_a_thread(const int64_t* positions, T* query, T* key, const T* table, int heads, int all_heads, int rot, longlong2 q, longlong2 k, bool neox) {
  const int64_t token = blockIdx.x / all_heads;
  const int head = blockIdx.x % all_heads, half = rot / 2;
  T* data = head < heads ? query + token * q.x + head * q.y : key + token * k.x + (head - heads) * k.y;
  const T* row = table + positions[token] * rot;
  const int i = threadIdx.x;
  float turned = 0;
  if (i < rot) {
    const bool upper = neox ? i >= half : i & 1;
    const int pair = neox ? i % half : i / 2, other = neox ? (upper ? i - half : i + half) : i ^ 1;
    const float mine = float(data[i]), theirs = float(data[other]), c = float(row[pair]), s = float(row[half + pair]);
    turned = upper ? mine * c + theirs * s : mine * c - theirs * s;
  }
  __syncthreads();
  if (i < rot) data[i] = T(turned);
}
template <typename T>
cudaError_t launch(const void* positions, void* query, void* key, const void* table, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t rot, longlong2 q, longlong2 k, bool neox, cudaStream_t stream) {
  const int64_t all = heads + (key != nullptr ? kv_heads : 0);
  element_a_thread<<<unsigned(tokens * all), unsigned((rot + 31) / 32 * 32), 0, stream>>>((const int64_t*)positions, (T*)query, (T*)key, (const T*)table, int(heads), int(all), int(rot), q, k, neox);
  return cudaGetLastError();
}
extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key, const void* cos_sin_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size, int64_t rot_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, bool is_neox, int dtype, cudaStream_t stream) {
  const longlong2 q{query_stride_0, query_stride_1}, k{key_stride_0, key_stride_1};
  switch (dtype) {
    case 0: return launch<float>(positions, query, key, cos_sin_cache, tokens, heads, kv_heads, rot_dim, q, k, is_neox, stream);
    case 1: return launch<__half>(positions, query, key, cos_sin_cache, tokens, heads, kv_heads, rot_dim, q, k, is_neox, stream);
    default: return launch<__nv_bfloat16>(positions, query, key, cos_sin_cache, tokens, heads, kv_heads, rot_dim, q, k, is_neox, stream);
  }
}
