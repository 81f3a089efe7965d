// rotary_embedding of SGLang's compiled library of today, launched as its host code launches it: a
// block a token, a thread a pair, a table of the tensors' dtype. It rounds each product. Heads of query
// and key lie equally far apart. The library of 2025 does not hold it: SGLang took vLLM's then.

#include <string>

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  if (dtype < 0 || dtype >= kDtypes) return cudaErrorInvalidValue;
  if (key && kv_heads > 1 && key_stride_1 != query_stride_1) return cudaErrorNotSupported;
  const char* const elements[kDtypes] = {"ff", "N3c104HalfES1_", "N3c108BFloat16ES1_"};
  const std::string name = std::string("_Z23rotary_embedding_kernelI") + elements[dtype] + "Lb" +
                           (is_neox ? "1" : "0") + "EEvPKlPT_" + (dtype == 0 ? "S3_" : "S5_") +
                           "PKT0_illliii";
  const void* function;
  if (const cudaError_t error = kernel_named(name.c_str(), &function)) return error;
  int sizes[] = {static_cast<int>(rot_dim), static_cast<int>(heads), static_cast<int>(kv_heads),
                 static_cast<int>(head_size)};
  void* arguments[] = {&positions, &query,          &key,          &cos_sin_cache,
                       &sizes[0],  &query_stride_0, &key_stride_0, &query_stride_1,
                       &sizes[1],  &sizes[2],       &sizes[3]};
  const int64_t pairs = heads * rot_dim / 2;
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(tokens)),
                          dim3(static_cast<unsigned>(pairs < 512 ? pairs : 512)), arguments, 0,
                          stream);
}
