// A warp a row, one element a lane and step; grid-stride over rows; the row is read a second time backwards.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void norm_of_rows(T* out, const T* input, const T* weight, int64_t tokens, int h, int64_t out_stride, int64_t in_stride, float eps) {
  const int lane = threadIdx.x & 31;
  for (int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) >> 5; row < tokens; row += gridDim.x * int64_t(blockDim.x) >> 5) {
    const T* x = input + row * in_stride;
    float acc = 0.f;
    for (int c = lane; c < h; c += 32) acc = fmaf(float(x[c]), float(x[c]), acc);
    for (int m = 1; m < 32; m <<= 1) acc += __shfl_xor_sync(~0u, acc, m);
    const float r = rsqrtf(acc / float(h) + eps);
    for (int c = (h - 1) / 32 * 32 + lane; c >= 0; c -= 32)
      if (c < h) out[row * out_stride + c] = T(float(x[c]) * r * float(weight[c]));
  }
}

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens, int64_t h, int64_t out_stride, int64_t input_stride, float eps, int dtype, cudaStream_t stream) {
  const unsigned grid = unsigned(tokens < 4096 ? (tokens + 3) / 4 : 1024);
  if (dtype == 0) norm_of_rows<<<grid, 128, 0, stream>>>((float*)out, (const float*)input, (const float*)weight, tokens, int(h), out_stride, input_stride, eps);
  if (dtype == 1) norm_of_rows<<<grid, 128, 0, stream>>>((__half*)out, (const __half*)input, (const __half*)weight, tokens, int(h), out_stride, input_stride, eps);
  if (dtype == 2) norm_of_rows<<<grid, 128, 0, stream>>>((__nv_bfloat16*)out, (const __nv_bfloat16*)input, (const __nv_bfloat16*)weight, tokens, int(h), out_stride, input_stride, eps);
  return cudaGetLastError();
}
