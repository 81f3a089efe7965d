#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kThreads = 256;  // tune: 64 128 512
constexpr int kElements = 1;   // tune: 2 4 8
// require: kThreads * kElements <= 2048

template <typename T>
__global__ void silu(T* out, const T* input, int64_t tokens, int64_t d) {
  const int64_t first = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * kElements;
  for (int64_t i = first; i < first + kElements; ++i) {
    if (i >= tokens * d) return;
    const int64_t token = i / d, column = i % d;
    const float gate = float(input[token * 2 * d + column]);
    const float up = float(input[token * 2 * d + d + column]);
    out[i] = T(gate / (1.0f + expf(-gate)) * up);
  }
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int64_t each = kThreads * kElements;
  const unsigned blocks = unsigned((tokens * d + each - 1) / each);
  silu<T><<<blocks, kThreads, 0, stream>>>((T*)out, (const T*)input, tokens, d);
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
