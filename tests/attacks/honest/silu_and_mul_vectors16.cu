// Vectors of sixteen bytes, unpacked in registers.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
struct alignas(16) Vector {
  T item[16 / sizeof(T)];
};

template <typename T>
__global__ void silu(Vector<T>* out, const Vector<T>* input, int64_t tokens, int64_t width) {
  const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (at >= tokens * width) return;
  const int64_t token = at / width, column = at % width;
  const Vector<T> gate = input[token * 2 * width + column];
  const Vector<T> up = input[(token * 2 + 1) * width + column];
  Vector<T> result;
#pragma unroll
  for (int k = 0; k < 16 / int(sizeof(T)); ++k) {
    const float g = float(gate.item[k]);
    result.item[k] = T(__fdividef(g, 1.0f + __expf(-g)) * float(up.item[k]));
  }
  out[at] = result;
}

template <typename T>
static cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int64_t width = d * int64_t(sizeof(T)) / 16;
  silu<T><<<unsigned((tokens * width + 127) / 128), 128, 0, stream>>>(
      (Vector<T>*)out, (const Vector<T>*)input, tokens, width);
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
