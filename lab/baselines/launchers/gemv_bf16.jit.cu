// One row times a matrix as SGLang compiles it at run time today, by the header in its package: a
// kernel for each shape, a warp a column or, from 8192 columns on, two.

#include <gemm/hopper_bf16_gemv.cuh>

namespace {

template <uint32_t kN, uint32_t kK>
cudaError_t launch_shape(void* y, const void* x, const void* w, cudaStream_t stream) {
  constexpr uint32_t kRows = kN >= 8192 ? 2 : 1;
  constexpr uint32_t kUnroll = 2, kWarps = 8, kBlock = kRows * kWarps;
  const auto kernel = sglang::hopper_bf16_gemv_kernel<kN, kK, kRows, kUnroll, kWarps, kProgrammatic>;
  return launch_kernel(kernel, dim3((kN + kBlock - 1) / kBlock), dim3(kWarps * 32), stream,
                       static_cast<sglang::bf16_t*>(y), static_cast<const sglang::bf16_t*>(x),
                       static_cast<const sglang::bf16_t*>(w));
}

}  // namespace

extern "C" cudaError_t gemv_bf16(void* y, const void* x, const void* w, int64_t m, int64_t n,
                                 int64_t k, int dtype, cudaStream_t stream) {
  if (m != 1 || dtype != 2) return cudaErrorNotSupported;
  if (n == 5120 && k == 2048) return launch_shape<5120, 2048>(y, x, w, stream);
  if (n == 2048 && k == 4096) return launch_shape<2048, 4096>(y, x, w, stream);
  if (n == 6144 && k == 4096) return launch_shape<6144, 4096>(y, x, w, stream);
  if (n == 4096 && k == 4096) return launch_shape<4096, 4096>(y, x, w, stream);
  if (n == 4096 && k == 12288) return launch_shape<4096, 12288>(y, x, w, stream);
  if (n == 4096 && k == 14336) return launch_shape<4096, 14336>(y, x, w, stream);
  return cudaErrorNotSupported;
}
