// per_token_group_quant_fp8 of a compiled SGLang library of 2025, launched as its host code launches
// it: sixteen threads a group of 128, as many groups a block as divide their number.

#include <string>

extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s,
                                                 int64_t tokens, int64_t hidden,
                                                 int64_t column_major, int dtype,
                                                 cudaStream_t stream) {
  if (dtype != 1 && dtype != 2) return cudaErrorNotSupported;
  const std::string name = std::string("_Z33per_token_group_quant_8bit_kernelI") +
                           (dtype == 1 ? "6__half" : "13__nv_bfloat16") + "13__nv_fp8_e4m3Lb" +
                           (column_major ? "1" : "0") + "ELb0EfEvPKT_PvPT3_iiifffii";
  const void* function;
  if (const cudaError_t error = kernel_named(name.c_str(), &function)) return error;
  constexpr int kThreads = 16;
  int group = 128, groups = static_cast<int>(tokens * hidden / group), each = 16;
  while (groups % each) each /= 2;
  float least = 1e-10f, low = -448.0f, high = 448.0f;
  int rows = static_cast<int>(hidden / group);
  int stride = column_major ? static_cast<int>((tokens + 3) / 4 * 4) : 1;
  void* arguments[] = {&input, &output_q, &output_s, &group, &groups, &each,
                       &least, &low,      &high,     &rows,  &stride};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(groups / each)),
                          dim3(static_cast<unsigned>(kThreads * each)), arguments, 0, stream);
}
