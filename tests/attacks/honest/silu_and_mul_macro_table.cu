// One kernel a dtype, written once by a table of macros; the block's size is set before the headers.
#define SILU_THREADS 192
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DTYPES(apply)                                             \
  apply(0, single, float, float, (float))                         \
  apply(1, half, __half, __half2float, __float2half_rn)           \
  apply(2, brain, __nv_bfloat16, __bfloat162float, __float2bfloat16_rn)

#define KERNEL(code, name, T, widen, narrow)                                               \
  __global__ void silu_##name(T* out, const T* in, unsigned d) {                           \
    const T* gate = in + size_t(blockIdx.x) * 2 * d;                                       \
    for (unsigned i = threadIdx.x; i < d; i += SILU_THREADS) {                             \
      const float g = widen(gate[i]), u = widen(gate[i + d]);                              \
      out[size_t(blockIdx.x) * d + i] = narrow(g / (1.0f + expf(-g)) * u);                 \
    }                                                                                      \
  }
DTYPES(KERNEL)

#define CASE(code, name, T, widen, narrow)                                                 \
  case code: silu_##name<<<unsigned(tokens), SILU_THREADS, 0, stream>>>(                   \
      static_cast<T*>(out), static_cast<const T*>(input), unsigned(d)); break;

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    DTYPES(CASE)
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
