// Sampling from probabilities: an optional index tensor, a seed that is a number and no size.
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

template <typename IdType>
__global__ void SamplingKernel(const float* probs, IdType* output, const IdType* indices,
                               uint32_t d, uint64_t seed) {
  const uint32_t row = indices == nullptr ? blockIdx.x : indices[blockIdx.x];
  if (threadIdx.x != 0) return;
  uint64_t state = seed + 0x9E3779B97F4A7C15ull * (blockIdx.x + 1);
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
  const float u = static_cast<float>(state >> 40) / 16777216.0f;
  float sum = 0.0f;
  IdType chosen = static_cast<IdType>(d - 1);
  for (uint32_t i = 0; i < d; ++i) {
    sum += probs[static_cast<uint64_t>(row) * d + i];
    if (sum > u) {
      chosen = static_cast<IdType>(i);
      break;
    }
  }
  output[blockIdx.x] = chosen;
}

void sampling_from_probs(TensorView probs, TensorView output, Optional<TensorView> maybe_indices,
                         bool deterministic, uint64_t philox_seed) {
  CHECK_INPUT(probs);
  CHECK_DIM(2, probs);  // probs: (batch_size, vocab_size)
  CHECK_INPUT_TYPE(probs, dl_float32);
  unsigned int batch_size = output.size(0);
  unsigned int vocab_size = probs.size(1);
  cudaStream_t stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(probs.device().device_type, 0));
  DISPATCH_DLPACK_IDTYPE_TO_CTYPE(output.dtype(), IdType, [&] {
    SamplingKernel<IdType><<<batch_size, 32, 0, stream>>>(
        static_cast<const float*>(probs.data_ptr()), static_cast<IdType*>(output.data_ptr()),
        maybe_indices.has_value() ? static_cast<const IdType*>(maybe_indices.value().data_ptr())
                                  : nullptr,
        vocab_size, philox_seed);
  });
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(sampling_from_probs, sampling_from_probs);
