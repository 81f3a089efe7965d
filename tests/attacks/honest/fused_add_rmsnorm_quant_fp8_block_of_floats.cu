// Fused, a block a row: the sums lie as floats in shared memory, up to 128 KiB of it, between the three passes.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

__device__ float all_of(float v, float* shared, bool sum) {
  for (int d = 16; d; d /= 2) {
    const float o = __shfl_xor_sync(0xffffffffu, v, d);
    v = sum ? v + o : fmaxf(v, o);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
  for (int i = 1; i < 8; ++i) v = sum ? v + shared[i] : fmaxf(v, shared[i]);
  return v;
}
template <typename T>
__global__ __launch_bounds__(256) void fused(const T* input, T* residual, const T* weight, __nv_fp8_e4m3* q, float* s, int h, int64_t is, int64_t rs, float eps) {
  __shared__ float sums[8], largest[8];
  extern __shared__ float row[];
  const T* x = input + blockIdx.x * is;
  T* r = residual + blockIdx.x * rs;
  float squares = 0.f;
  for (int i = threadIdx.x; i < h; i += 256) {
    const float v = float(x[i]) + float(r[i]);
    row[i] = v;
    r[i] = T(v);
    squares += v * v;
  }
  const float scale = rsqrtf(all_of(squares, sums, true) / h + eps);
  float most = 0.f;
  for (int i = threadIdx.x; i < h; i += 256) most = fmaxf(most, fabsf(row[i] = row[i] * scale * float(weight[i])));
  const float code_scale = all_of(most, largest, false) / 448.f, inverse = code_scale > 0.f ? 1.f / code_scale : 0.f;
  if (threadIdx.x == 0) s[blockIdx.x] = code_scale;
  for (int i = threadIdx.x; i < h; i += 256) q[int64_t(blockIdx.x) * h + i] = __nv_fp8_e4m3(fminf(fmaxf(row[i] * inverse, -448.f), 448.f));
}
template <typename T>
cudaError_t go(const void* x, void* r, const void* w, void* q, void* s, int64_t tokens, int64_t h, int64_t is, int64_t rs, float eps, cudaStream_t stream) {
  const int bytes = int(h * sizeof(float));
  const cudaError_t error = cudaFuncSetAttribute(fused<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  fused<<<unsigned(tokens), 256, bytes, stream>>>((const T*)x, (T*)r, (const T*)w, (__nv_fp8_e4m3*)q, (float*)s, int(h), is, rs, eps);
  return cudaGetLastError();
}
extern "C" cudaError_t fused_add_rmsnorm_quant_fp8(const void* input, void* residual, const void* weight, void* output_q, void* output_s, void* normed, int64_t tokens, int64_t h, int64_t input_stride, int64_t residual_stride, float eps, int dtype, cudaStream_t stream) {
  if (dtype == 1) return go<__half>(input, residual, weight, output_q, output_s, tokens, h, input_stride, residual_stride, eps, stream);
  return go<__nv_bfloat16>(input, residual, weight, output_q, output_s, tokens, h, input_stride, residual_stride, eps, stream);
}
