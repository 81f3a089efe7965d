// qk_rmsnorm_rope as SGLang compiles it at run time today, by the headers in its package: the norm of
// query and key in one kernel, then their rotation in another. Heads are rotated as a whole, those of
// query and key lie equally far apart, and for the norm side by side. Both kernels take the key's
// address less the extent of the query's heads, and count heads of the key behind them.

#include <elementwise/qknorm.cuh>
#include <elementwise/rope.cuh>

namespace {

template <typename T, int64_t kDim>
cudaError_t launch_norm(const sglang::QKNormParams& params, cudaStream_t stream) {
  const int64_t rows =
      static_cast<int64_t>(params.num_qo_heads + params.num_kv_heads) * params.num_tokens;
  constexpr int64_t kRows = sglang::kWarpsPerBlock * (kDim == 128 ? 2 : 1);
  const int64_t blocks = (rows + kRows - 1) / kRows;
  if constexpr (kDim == 128) {
    return launch_resident(sglang::fused_qknorm_half_warp<kProgrammatic, T>, blocks,
                           sglang::kThreadsPerBlock, stream, params);
  } else {
    return launch_resident(sglang::fused_qknorm_warp<kDim, kProgrammatic, T>, blocks,
                           sglang::kThreadsPerBlock, stream, params);
  }
}

template <typename T, int64_t kDim, bool kNeox>
cudaError_t launch_rope(const sglang::FusedRopeParams& params, cudaStream_t stream) {
  constexpr unsigned kLanes = sglang::FusedRopeKernel<kNeox, kDim, kProgrammatic, T>::kWorkThreads;
  constexpr int64_t kHeads = sglang::kBlockSize / kLanes;
  const int64_t heads =
      static_cast<int64_t>(params.num_qo_heads + params.num_kv_heads) * params.num_tokens;
  return launch_resident(
      sglang::fused_rope_kernel<kNeox, kDim, kProgrammatic, T, T, int64_t, kLanes>,
      (heads + kHeads - 1) / kHeads, sglang::kBlockSize, stream, params);
}

template <typename T, int64_t kDim>
cudaError_t launch(const sglang::QKNormParams& norm, const sglang::FusedRopeParams& rope,
                   bool is_neox, cudaStream_t stream) {
  if (const cudaError_t error = launch_norm<T, kDim>(norm, stream)) return error;
  return is_neox ? launch_rope<T, kDim, true>(rope, stream)
                 : launch_rope<T, kDim, false>(rope, stream);
}

template <typename T>
cudaError_t launch_dim(int64_t head_dim, const sglang::QKNormParams& norm,
                       const sglang::FusedRopeParams& rope, bool is_neox, cudaStream_t stream) {
  switch (head_dim) {
    case 64: return launch<T, 64>(norm, rope, is_neox, stream);
    case 128: return launch<T, 128>(norm, rope, is_neox, stream);
    case 256: return launch<T, 256>(norm, rope, is_neox, stream);
    default: return cudaErrorNotSupported;
  }
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
  if (rotary_dim != head_dim || query_stride_1 != head_dim || key_stride_1 != head_dim) {
    return cudaErrorNotSupported;
  }
  constexpr int64_t kBytes = 2;
  void* key_behind_query = static_cast<char*>(key) - kBytes * heads * head_dim;
  sglang::QKNormParams norm{};
  norm.q = query;
  norm.k = key_behind_query;
  norm.q_stride = query_stride_0;
  norm.k_stride = key_stride_0;
  norm.num_qo_heads = static_cast<uint32_t>(heads);
  norm.num_kv_heads = static_cast<uint32_t>(kv_heads);
  norm.eps = eps;
  norm.q_weight = q_weight;
  norm.k_weight = k_weight;
  norm.num_tokens = static_cast<uint32_t>(tokens);
  sglang::FusedRopeParams rope{};
  rope.q_ptr = query;
  rope.k_ptr = key_behind_query;
  rope.cos_sin_cache_ptr = cos_sin_cache;
  rope.positions = positions;
  rope.q_stride_bytes = kBytes * query_stride_0;
  rope.k_stride_bytes = kBytes * key_stride_0;
  rope.head_stride_bytes = kBytes * head_dim;
  rope.num_qo_heads = norm.num_qo_heads;
  rope.num_kv_heads = norm.num_kv_heads;
  rope.num_tokens = norm.num_tokens;
  switch (dtype) {
    case 1: return launch_dim<sglang::fp16_t>(head_dim, norm, rope, is_neox, stream);
    case 2: return launch_dim<sglang::bf16_t>(head_dim, norm, rope, is_neox, stream);
    default: return cudaErrorInvalidValue;
  }
}
