// An exponential of its own: range reduction to half an octave, a polynomial, the exponent by bits.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float power_of_e(float v) {
  v = fminf(fmaxf(v, -87.0f), 88.0f);
  const float octaves = rintf(v * 1.44269504f);
  float r = fmaf(octaves, -0.693145752f, v);
  r = fmaf(octaves, -1.42860677e-6f, r);
  float p = 1.3888889e-3f;
  p = fmaf(p, r, 8.3333333e-3f);
  p = fmaf(p, r, 4.1666667e-2f);
  p = fmaf(p, r, 1.6666667e-1f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  return p * __int_as_float((int(octaves) + 127) << 23);
}

template <typename T>
__global__ void __launch_bounds__(192) gate_rows(T* __restrict__ result, const T* __restrict__ pairs,
                                                 int64_t tokens, int64_t d) {
  for (int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    const T* gates = pairs + token * 2 * d;
    for (int64_t column = threadIdx.x; column < d; column += blockDim.x) {
      const float gate = float(gates[column]);
      const float value = isnan(gate) ? gate : gate / (1.0f + power_of_e(-gate));
      result[token * d + column] = T(value * float(gates[d + column]));
    }
  }
}

template <typename T>
static cudaError_t start(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t s) {
  const unsigned blocks = unsigned(tokens < 4096 ? tokens : 4096);
  gate_rows<T><<<blocks, 192, 0, s>>>(static_cast<T*>(out), static_cast<const T*>(input), tokens, d);
  return cudaPeekAtLastError();
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  if (dtype == 0) return start<float>(out, input, tokens, d, stream);
  if (dtype == 1) return start<__half>(out, input, tokens, d, stream);
  return start<__nv_bfloat16>(out, input, tokens, d, stream);
}
