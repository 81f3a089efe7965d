// rope_and_kv_write of a compiled SGLang library of 2025: the one kernel in which it rotates as
// FlashInfer does and writes key and value into the cache, launched as its host code launches it. A
// thread holds 16 bytes of a head; each head has blocks of its own until the tokens' blocks alone fill
// the GPU. Its other way, the rotation and then store_kv_cache, is in two cubins.

#include <string>

extern "C" cudaError_t rope_and_kv_write(
    const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache,
    void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads,
    int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots,
    int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride,
    int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  constexpr unsigned kThreads = 128;
  if (dtype != 1 && dtype != 2) return cudaErrorInvalidValue;
  const unsigned vector = head_dim <= 256 ? 8 : 16, lanes = static_cast<unsigned>(head_dim) / vector;
  const unsigned each = kThreads / lanes;
  const std::string parameters =
      std::string("ILb1ELb") + (is_neox ? "0" : "1") + "ELj" + std::to_string(head_dim) + "ELj" +
      std::to_string(vector) + "ELj" + std::to_string(lanes) + "E" +
      (dtype == 1 ? "6__half" : "13__nv_bfloat16") +
      "lEEvPT4_S3_S3_S3_S3_S3_S3_PfPT5_jjjjmmmmmmmmmmmmmmS6_";
  const std::string all_heads =
      "_ZN10flashinfer49BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel" + parameters;
  const std::string by_head =
      "_ZN10flashinfer64BatchQKApplyRotaryPosIdsCosSinCacheEnhancedHeadParallelismKernel" +
      parameters;
  const void* function;
  int device = 0, multiprocessors = 0, resident = 0;
  cudaError_t error = kernel_named(all_heads.c_str(), &function);
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, kThreads, 0);
  }
  if (error != cudaSuccess) return error;
  dim3 grid((static_cast<unsigned>(tokens) + each - 1) / each);
  if (grid.x < static_cast<unsigned>(resident * multiprocessors)) {
    if ((error = kernel_named(by_head.c_str(), &function)) != cudaSuccess) return error;
    grid.y = static_cast<unsigned>(heads + kv_heads);
  }
  unsigned sizes[] = {static_cast<unsigned>(tokens), static_cast<unsigned>(heads),
                      static_cast<unsigned>(kv_heads), static_cast<unsigned>(rotary_dim)};
  void* arguments[] = {
      &query,          &key,            &value,         &query,          &key,
      &k_cache,        &v_cache,        &cos_sin_cache, &positions,      &sizes[0],
      &sizes[1],       &sizes[2],       &sizes[3],      &query_stride_0, &query_stride_1,
      &key_stride,     &head_dim,       &value_stride,  &head_dim,       &query_stride_0,
      &query_stride_1, &key_stride,     &head_dim,      &k_cache_stride, &head_dim,
      &v_cache_stride, &head_dim,       &cache_loc};
  return cudaLaunchKernel(function, grid, dim3(lanes, each), arguments, 0, stream);
}
