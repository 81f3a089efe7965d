// A block a token, elements one by one.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void silu(T* out, const T* input, int64_t d) {
  const T* gate = input + blockIdx.x * 2 * d;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float g = float(gate[i]);
    out[blockIdx.x * d + i] = T(g / (1.0f + expf(-g)) * float(gate[d + i]));
  }
}

template <typename T>
static cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  silu<T><<<unsigned(tokens), 128, 0, stream>>>((T*)out, (const T*)input, d);
  return cudaGetLastError();
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
