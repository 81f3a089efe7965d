// rotary_embedding as SGLang compiles it at run time today, by the header in its package: a block a
// token, a thread a pair. It computes in the tensors' dtype and rounds each product. Heads of query
// and key lie equally far apart.

#include <cstdint>
#include <cuda_runtime.h>
#include <elementwise/pos_enc.cuh>

namespace {

template <typename T, bool kNeox>
cudaError_t launch(const void* positions, void* query, void* key, const void* cos_sin_cache,
                   int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size,
                   int64_t rot_dim, int64_t query_stride, int64_t key_stride, int64_t head_stride,
                   cudaStream_t stream) {
  const int64_t pairs = heads * rot_dim / 2;
  const unsigned threads = static_cast<unsigned>(pairs < 512 ? pairs : 512);
  sglang::rotary_embedding_kernel<T, kNeox><<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
      static_cast<const int64_t*>(positions), static_cast<T*>(query), static_cast<T*>(key),
      static_cast<const T*>(cos_sin_cache), static_cast<int>(rot_dim), query_stride, key_stride,
      head_stride, static_cast<int>(heads), static_cast<int>(kv_heads),
      static_cast<int>(head_size));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  if (key && kv_heads > 1 && key_stride_1 != query_stride_1) return cudaErrorNotSupported;
#define ASTRA_LAUNCH(T, kNeox)                                                              \
  launch<T, kNeox>(positions, query, key, cos_sin_cache, tokens, heads, kv_heads, head_size, \
                   rot_dim, query_stride_0, key_stride_0, query_stride_1, stream)
  switch (dtype) {
    case 0: return is_neox ? ASTRA_LAUNCH(float, true) : ASTRA_LAUNCH(float, false);
    case 1: return is_neox ? ASTRA_LAUNCH(half, true) : ASTRA_LAUNCH(half, false);
    case 2: return is_neox ? ASTRA_LAUNCH(nv_bfloat16, true) : ASTRA_LAUNCH(nv_bfloat16, false);
    default: return cudaErrorInvalidValue;
  }
#undef ASTRA_LAUNCH
}
