// silu(g) = g/2 (1 + tanh(g/2)), with the tangent where that is precise and the exponential elsewhere; two tokens a block.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

// Not for float32: a GPU's fast tangent has 16 places.
template <typename T>
__device__ float silu(float g) {
  return sizeof(T) == 2 && g > -1.0f ? 0.5f * g * (1.0f + tanhf(0.5f * g)) : g / (1.0f + expf(-g));
}

template <typename T>
__global__ void tangent(T* out, const T* input, int64_t tokens, int64_t d) {
  const int64_t token = int64_t(blockIdx.x) * 2 + threadIdx.y;
  if (token >= tokens) return;
  const T* row = input + token * 2 * d;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) out[token * d + i] = T(silu<T>(float(row[i])) * float(row[d + i]));
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  const dim3 block(d < 256 ? 64 : 256, 2), grid(unsigned((tokens + 1) / 2));
  switch (dtype) {
    case 0: tangent<<<grid, block, 0, stream>>>((float*)out, (const float*)input, tokens, d); break;
    case 1: tangent<<<grid, block, 0, stream>>>((__half*)out, (const __half*)input, tokens, d); break;
    case 2: tangent<<<grid, block, 0, stream>>>((__nv_bfloat16*)out, (const __nv_bfloat16*)input, tokens, d); break;
  }
  return cudaPeekAtLastError();
}
