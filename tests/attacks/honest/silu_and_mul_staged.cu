// Gate and up staged in shared memory first.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void silu(T* out, const T* input, int64_t d) {
  __shared__ float gate[256], up[256];
  const int64_t column = blockIdx.y * int64_t(256) + threadIdx.x;
  if (column < d) {
    gate[threadIdx.x] = float(input[blockIdx.x * 2 * d + column]);
    up[threadIdx.x] = float(input[blockIdx.x * 2 * d + d + column]);
  }
  __syncthreads();
  if (column < d) {
    const float g = gate[threadIdx.x];
    out[blockIdx.x * d + column] = T(g / (1.0f + __expf(-g)) * up[threadIdx.x]);
  }
}

template <typename T>
static cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const dim3 grid(unsigned(tokens), unsigned((d + 255) / 256));
  silu<T><<<grid, 256, 0, stream>>>((T*)out, (const T*)input, d);
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
