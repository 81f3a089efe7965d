// Blocks of 32 by 8 threads: 32 vectors of 8 bytes of 8 rows; column blocks run fastest.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, typename W>
__global__ void patch(W* out, const W* in, int64_t tokens, int64_t words) {
  const int64_t word = blockIdx.x * 32ll + threadIdx.x;
  for (int64_t row = blockIdx.y * 8ll + threadIdx.y; row < tokens; row += 8ll * gridDim.y) {
    if (word >= words) continue;
    W left = in[row * 2 * words + word], right = in[row * 2 * words + words + word];
    T *g = reinterpret_cast<T*>(&left), *u = reinterpret_cast<T*>(&right);
#pragma unroll
    for (int i = 0; i < int(sizeof(W) / sizeof(T)); ++i) {
      const float v = static_cast<float>(g[i]);
      const float s = 1.0f + __expf(v * fmaf(-0.0713548163f * v, v, -1.59576912f));
      g[i] = static_cast<T>(__fdividef(v, s) * static_cast<float>(u[i]));
      if (s > 8.5e37f) g[i] = static_cast<T>(v * 0.0f * static_cast<float>(u[i]));
    }
    out[row * words + word] = left;
  }
}
extern "C" cudaError_t gelu_tanh_and_mul(void* out, const void* input, int64_t tokens, int64_t d, int dtype, cudaStream_t stream) {
  const int64_t words = d * (dtype == 0 ? 4 : 2) / 8, down = (tokens + 7) / 8;
  const dim3 grid(unsigned((words + 31) / 32), unsigned(down < 60000 ? down : 60000)), block(32, 8);
  const auto kernel = dtype == 0 ? patch<float, uint2> : dtype == 1 ? patch<__half, uint2> : patch<__nv_bfloat16, uint2>;
  kernel<<<grid, block, 0, stream>>>((uint2*)out, (const uint2*)input, tokens, words);
  return cudaGetLastError();
}
