// qk_norm_rope_kv_append as SGLang runs it today for Qwen3 with experts, by headers in its package: the
// norm of query and key in one kernel, as the launcher that stands before this text launches it, then
// rotation and append in another. The cache has slots, not pages: pages of it have to lie side by side.

namespace {

using BFloat16 = sglang::bf16_t;

template <int64_t kDim>
cudaError_t launch_append(const sglang::QKNormParams& norm,
                          const sglang::FusedRopeStoreParams& append, cudaStream_t stream) {
  if (const cudaError_t error = launch_norm<BFloat16, kDim>(norm, stream)) return error;
  constexpr unsigned kLanes =
      sglang::FusedRopeKernel<true, kDim, kProgrammatic, BFloat16>::kWorkThreads;
  constexpr int64_t kHeads = sglang::kBlockSize / kLanes;
  const int64_t heads =
      static_cast<int64_t>(norm.num_qo_heads + 2 * norm.num_kv_heads) * norm.num_tokens;
  return launch_resident(sglang::fused_rope_store_kernel<true, kDim, kProgrammatic, BFloat16,
                                                         BFloat16, int64_t, kLanes>,
                         (heads + kHeads - 1) / kHeads, sglang::kBlockSize, stream, append);
}

}  // namespace

extern "C" cudaError_t qk_norm_rope_kv_append(
    void* query, void* key, const void* value, void* k_cache, void* v_cache, const void* q_weight,
    const void* k_weight, const void* cos_sin_cache, const void* positions, const void* slots,
    const void* k_scale, const void* v_scale, int64_t tokens, int64_t heads, int64_t kv_heads,
    int64_t head_dim, int64_t max_position, int64_t pages, int64_t page_size,
    int64_t query_stride, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride,
    int64_t v_cache_stride, float eps, int dtype, int c_dtype, int i_dtype, cudaStream_t stream) {
  constexpr int kBfloat16 = 2, kInt64 = 8;
  constexpr int64_t kBytes = 2;
  const int64_t slot = kv_heads * head_dim, page = page_size * slot;
  const bool side_by_side = page_size == 1 || k_cache_stride == page;
  if (c_dtype != kBfloat16 || i_dtype != kInt64 || !side_by_side ||
      k_cache_stride != v_cache_stride) {
    return cudaErrorNotSupported;
  }
  const int64_t query_bytes = kBytes * heads * head_dim;
  sglang::QKNormParams norm{};
  norm.q = query;
  norm.k = static_cast<char*>(key) - query_bytes;
  norm.q_stride = query_stride;
  norm.k_stride = key_stride;
  norm.num_qo_heads = static_cast<uint32_t>(heads);
  norm.num_kv_heads = static_cast<uint32_t>(kv_heads);
  norm.eps = eps;
  norm.q_weight = q_weight;
  norm.k_weight = k_weight;
  norm.num_tokens = static_cast<uint32_t>(tokens);
  sglang::FusedRopeStoreParams append{};
  append.base_params.q_ptr = query;
  append.base_params.k_ptr = norm.k;
  append.base_params.cos_sin_cache_ptr = cos_sin_cache;
  append.base_params.positions = positions;
  append.base_params.q_stride_bytes = kBytes * query_stride;
  append.base_params.k_stride_bytes = kBytes * key_stride;
  append.base_params.head_stride_bytes = kBytes * head_dim;
  append.base_params.num_qo_heads = norm.num_qo_heads;
  append.base_params.num_kv_heads = norm.num_kv_heads;
  append.base_params.num_tokens = norm.num_tokens;
  append.v_ptr = const_cast<void*>(value);
  append.k_cache = static_cast<char*>(k_cache) - query_bytes;
  append.v_cache = v_cache;
  append.out_loc = slots;
  append.v_stride_bytes = kBytes * value_stride;
  append.cache_stride_bytes = kBytes * (page_size == 1 ? k_cache_stride : slot);
  switch (head_dim) {
    case 64: return launch_append<64>(norm, append, stream);
    case 128: return launch_append<128>(norm, append, stream);
    case 256: return launch_append<256>(norm, append, stream);
    default: return cudaErrorNotSupported;
  }
}
