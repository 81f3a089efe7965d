// A right kernel of the simplest kind; the tests break it in one place each.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void silu(T* out, const T* input, int64_t tokens, int64_t d) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= tokens * d) return;
  const int64_t token = i / d, column = i % d;
  const float gate = float(input[token * 2 * d + column]);
  const float up = float(input[token * 2 * d + d + column]);
  out[i] = T(gate / (1.0f + expf(-gate)) * up);
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const unsigned blocks = unsigned((tokens * d + 255) / 256);
  silu<T><<<blocks, 256, 0, stream>>>((T*)out, (const T*)input, tokens, d);
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
