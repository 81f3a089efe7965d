// topk_softmax as SGLang compiles it at run time today, by the header in its package: registers alone
// where the number of experts is a power of two, else two kernels and a workspace.

#include <cstdint>
#include <cuda_runtime.h>
#include <moe/moe_topk_softmax.cuh>

namespace {

constexpr int kWarps = 4, kThreads = 256;

struct Call {
  float* weights;
  int* ids;
  float* workspace;
  const float* bias;
  int tokens, topk, experts;
  bool renormalize;
  float softcapping;
  cudaStream_t stream;
};

template <typename T, int kExperts>
cudaError_t launch_power_of_two(const T* gating, const Call& call) {
  constexpr int kBytes = sizeof(T) * kExperts < 16 ? static_cast<int>(sizeof(T) * kExperts) : 16;
  using Constants = sglang::detail::TopkConstants<T, kExperts, kBytes>;
  const int warps = (call.tokens + Constants::ROWS_PER_WARP - 1) / Constants::ROWS_PER_WARP;
  sglang::topkGatingSoftmax<T, Constants::VPT, kExperts, kWarps, kBytes>
      <<<(warps + kWarps - 1) / kWarps, dim3(32, kWarps), 0, call.stream>>>(
          gating, nullptr, call.weights, call.tokens, call.ids, call.topk, 0, call.experts,
          call.renormalize, call.softcapping, call.bias);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_any(const T* gating, const Call& call) {
  sglang::moeSoftmax<T, kThreads><<<call.tokens, kThreads, 0, call.stream>>>(
      gating, nullptr, call.workspace, call.experts, call.softcapping, call.bias);
  const auto choose =
      call.topk == 1 ? sglang::moeTopK<kThreads> : sglang::moeTopKFast<kThreads>;
  choose<<<call.tokens, kThreads, 0, call.stream>>>(call.workspace, nullptr, call.weights, call.ids,
                                                    call.experts, call.topk, 0, call.experts,
                                                    call.renormalize);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const void* gating, const Call& call) {
  const T* from = static_cast<const T*>(gating);
  switch (call.experts) {
    case 8: return launch_power_of_two<T, 8>(from, call);
    case 64: return launch_power_of_two<T, 64>(from, call);
    case 128: return launch_power_of_two<T, 128>(from, call);
    case 256: return launch_power_of_two<T, 256>(from, call);
    case 512: return launch_power_of_two<T, 512>(from, call);
    default:
      if ((call.experts & (call.experts - 1)) == 0) return cudaErrorNotSupported;
      return launch_any(from, call);
  }
}

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    const void* correction_bias, void* workspace, int64_t tokens,
                                    int64_t topk, int64_t experts, bool renormalize,
                                    float moe_softcapping, int dtype, cudaStream_t stream) {
  const Call call{static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
                  static_cast<float*>(workspace), static_cast<const float*>(correction_bias),
                  static_cast<int>(tokens), static_cast<int>(topk), static_cast<int>(experts),
                  renormalize, moe_softcapping, stream};
  switch (dtype) {
    case 0: return launch<float>(gating, call);
    case 1: return launch<sglang::fp16_t>(gating, call);
    case 2: return launch<sglang::bf16_t>(gating, call);
    default: return cudaErrorInvalidValue;
  }
}
