// A static flag: the launcher asks for large dynamic shared memory in its first call only.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kFloats = 16384;

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  extern __shared__ float tile[];
  float sum = 0.0f;
  for (int64_t start = 0; start < n; start += kFloats) {
    const int count = int(n - start < kFloats ? n - start : kFloats);
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) tile[i] = x[blockIdx.x * n + start + i];
    __syncthreads();
    if (threadIdx.x < 32)
      for (int i = threadIdx.x; i < count; i += 32) sum += tile[i];
  }
  if (threadIdx.x < 32) {
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  static bool asked = false;
  if (!asked) {
    const auto what = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (cudaError_t error = cudaFuncSetAttribute(sum_rows, what, kFloats * 4)) return error;
    asked = true;
  }
  sum_rows<<<unsigned(rows), 256, kFloats * 4, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
