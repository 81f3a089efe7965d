// qk_rmsnorm_rope by FlashInfer's own headers and host code, three kernels in sequence: the norm of the
// query's heads, that of the key's, and the rotation of both, which is always launched plainly.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/norm.cuh>
#include <flashinfer/pos_enc.cuh>

namespace {

template <typename T>
T* typed(const void* address) {
  return const_cast<T*>(static_cast<const T*>(address));
}

template <typename T>
cudaError_t launch_norm(void* heads, const void* weight, int64_t tokens, int64_t count,
                        int64_t head_dim, int64_t token_stride, int64_t head_stride, float eps,
                        cudaStream_t stream) {
  const uint32_t strides[] = {static_cast<uint32_t>(token_stride),
                              static_cast<uint32_t>(head_stride)};
  return flashinfer::norm::QKRMSNorm<T>(
      typed<T>(heads), typed<T>(weight), typed<T>(heads), static_cast<uint32_t>(tokens),
      static_cast<uint32_t>(count), static_cast<uint32_t>(head_dim), strides[0], strides[1],
      strides[0], strides[1], eps, kProgrammatic, stream);
}

}  // namespace

extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight,
                                       const void* k_weight, const void* cos_sin_cache,
                                       const void* positions, int64_t tokens, int64_t heads,
                                       int64_t kv_heads, int64_t head_dim, int64_t rotary_dim,
                                       int64_t max_position, int64_t query_stride_0,
                                       int64_t query_stride_1, int64_t key_stride_0,
                                       int64_t key_stride_1, float eps, bool is_neox, int dtype,
                                       cudaStream_t stream) {
  const auto with = [&](auto zero) -> cudaError_t {
    using T = decltype(zero);
    cudaError_t error = launch_norm<T>(query, q_weight, tokens, heads, head_dim, query_stride_0,
                                       query_stride_1, eps, stream);
    if (error == cudaSuccess) {
      error = launch_norm<T>(key, k_weight, tokens, kv_heads, head_dim, key_stride_0, key_stride_1,
                             eps, stream);
    }
    if (error != cudaSuccess) return error;
    return flashinfer::BatchQKApplyRotaryPosIdsCosSinCache<T, int64_t>(
        typed<T>(query), typed<T>(key), typed<T>(query), typed<T>(key),
        typed<float>(cos_sin_cache), typed<int64_t>(positions), static_cast<uint32_t>(tokens),
        static_cast<uint32_t>(heads), static_cast<uint32_t>(kv_heads),
        static_cast<uint32_t>(rotary_dim), static_cast<uint32_t>(head_dim), query_stride_0,
        query_stride_1, key_stride_0, key_stride_1, query_stride_0, query_stride_1, key_stride_0,
        key_stride_1, !is_neox, stream);
  };
  switch (dtype) {
    case 1: return with(__half{});
    case 2: return with(__nv_bfloat16{});
    default: return cudaErrorInvalidValue;
  }
}
