// moe_sum_reduce of a compiled SGLang library, launched as its host code of 2025 launches it: elements
// one by one up to 128 tokens, a warp a token up to 256 or where the dtype is not bfloat16, else
// vectors. As many experts as the library has kernels of their own for. Today's library has the same
// kernels with the scale's type as a dependent one, which is another name.

#include <string>

namespace {

struct Shape {
  const void* input;
  void* output;
  int64_t tokens, experts, hidden, token_stride, out_stride;
  float scale;
};

unsigned parts(int64_t whole, int64_t part) {
  const int64_t count = (whole + part - 1) / part;
  return static_cast<unsigned>(count < 65535 ? count : 65535);
}

cudaError_t launch_vectors(Shape shape, cudaStream_t stream) {
  constexpr int kWarps = 8;
  const void* function;
  const cudaError_t error = kernel_named(
      "_Z40moe_sum_reduce_warp_per_token_vec_kernelILi8EEvPKN3c108BFloat16EPS1_llllllf", &function);
  if (error != cudaSuccess) return error;
  void* arguments[] = {&shape.input,   &shape.output,       &shape.tokens,
                       &shape.hidden,  &shape.experts,      &shape.token_stride,
                       &shape.hidden,  &shape.out_stride,   &shape.scale};
  return cudaLaunchKernel(function, dim3(parts(shape.hidden / 8, 32), parts(shape.tokens, kWarps)),
                          dim3(32 * kWarps), arguments, 0, stream);
}

cudaError_t launch_elements(Shape shape, const char* element, const char* same,
                            cudaStream_t stream) {
  constexpr int kWarps = 4, kThreads = 256;
  const bool warps = shape.tokens > 128;
  const std::string name =
      std::string(warps ? "_Z37moe_sum_reduce_kernel_warp_token_topkI" : "_Z21moe_sum_reduce_kernelI") +
      element + "Li" + std::to_string(shape.experts) + (warps ? "ELi4EEvPKT_P" : "EEvPKT_P") + same +
      "_lllll";
  const std::string today = name + "N2at10OpMathTypeI" + same + "_E4typeE";
  const void* function;
  if (kernel_named((name + "f").c_str(), &function) != cudaSuccess) {
    cudaGetLastError();
    if (const cudaError_t error = kernel_named(today.c_str(), &function)) return error;
  }
  void* arguments[] = {&shape.input,        &shape.output, &shape.tokens,     &shape.hidden,
                       &shape.token_stride, &shape.hidden, &shape.out_stride, &shape.scale};
  const dim3 grid = warps ? dim3(parts(shape.hidden, 32), parts(shape.tokens, kWarps))
                          : dim3(parts(shape.hidden, kThreads), parts(shape.tokens, 1));
  return cudaLaunchKernel(function, grid, dim3(warps ? 32 * kWarps : kThreads), arguments, 0,
                          stream);
}

}  // namespace

extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens,
                                      int64_t experts, int64_t hidden, float scale, int dtype,
                                      cudaStream_t stream) {
  if (experts != 2 && experts != 4 && experts != 8 && experts != 9) return cudaErrorNotSupported;
  const Shape shape{input, output, tokens, experts, hidden, experts * hidden, hidden, scale};
  switch (dtype) {
    case 0: return launch_elements(shape, "f", "S0", stream);
    case 1: return launch_elements(shape, "N3c104HalfE", "S2", stream);
    case 2:
      if (tokens > 256 && hidden % 8 == 0) return launch_vectors(shape, stream);
      return launch_elements(shape, "N3c108BFloat16E", "S2", stream);
    default: return cudaErrorInvalidValue;
  }
}
