// rope_and_kv_write as SGLang compiles it at run time today, by the header in its package: one kernel
// that rotates query and key and writes key and value into the cache. Heads are rotated as a whole and
// lie side by side, and slots of both caches equally far apart. It takes the addresses of key and key
// cache less the extent of the query's heads, and counts heads of the key behind them.

#include <elementwise/rope.cuh>

namespace {

template <typename T, int64_t kDim, bool kNeox>
cudaError_t launch(const sglang::FusedRopeStoreParams& params, cudaStream_t stream) {
  constexpr unsigned kLanes = sglang::FusedRopeKernel<kNeox, kDim, kProgrammatic, T>::kWorkThreads;
  constexpr int64_t kHeads = sglang::kBlockSize / kLanes;
  const sglang::FusedRopeParams& rope = params.base_params;
  const int64_t heads =
      static_cast<int64_t>(rope.num_qo_heads + 2 * rope.num_kv_heads) * rope.num_tokens;
  return launch_resident(
      sglang::fused_rope_store_kernel<kNeox, kDim, kProgrammatic, T, T, int64_t, kLanes>,
      (heads + kHeads - 1) / kHeads, sglang::kBlockSize, stream, params);
}

template <typename T>
cudaError_t launch_dim(int64_t head_dim, const sglang::FusedRopeStoreParams& params, bool is_neox,
                       cudaStream_t stream) {
  switch (head_dim) {
    case 64:
      return is_neox ? launch<T, 64, true>(params, stream) : launch<T, 64, false>(params, stream);
    case 128:
      return is_neox ? launch<T, 128, true>(params, stream) : launch<T, 128, false>(params, stream);
    case 256:
      return is_neox ? launch<T, 256, true>(params, stream) : launch<T, 256, false>(params, stream);
    default: return cudaErrorNotSupported;
  }
}

}  // namespace

extern "C" cudaError_t rope_and_kv_write(
    const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache,
    void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads,
    int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots,
    int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride,
    int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  if (rotary_dim != head_dim || query_stride_1 != head_dim || k_cache_stride != v_cache_stride) {
    return cudaErrorNotSupported;
  }
  constexpr int64_t kBytes = 2;
  const int64_t query_bytes = kBytes * heads * head_dim;
  sglang::FusedRopeStoreParams params{};
  params.base_params.q_ptr = query;
  params.base_params.k_ptr = static_cast<char*>(key) - query_bytes;
  params.base_params.cos_sin_cache_ptr = cos_sin_cache;
  params.base_params.positions = positions;
  params.base_params.q_stride_bytes = kBytes * query_stride_0;
  params.base_params.k_stride_bytes = kBytes * key_stride;
  params.base_params.head_stride_bytes = kBytes * head_dim;
  params.base_params.num_qo_heads = static_cast<uint32_t>(heads);
  params.base_params.num_kv_heads = static_cast<uint32_t>(kv_heads);
  params.base_params.num_tokens = static_cast<uint32_t>(tokens);
  params.v_ptr = const_cast<void*>(value);
  params.k_cache = static_cast<char*>(k_cache) - query_bytes;
  params.v_cache = v_cache;
  params.out_loc = cache_loc;
  params.v_stride_bytes = kBytes * value_stride;
  params.cache_stride_bytes = kBytes * k_cache_stride;
  switch (dtype) {
    case 1: return launch_dim<sglang::fp16_t>(head_dim, params, is_neox, stream);
    case 2: return launch_dim<sglang::bf16_t>(head_dim, params, is_neox, stream);
    default: return cudaErrorInvalidValue;
  }
}
