// X47: the same through a header of the toolkit, which writes the number.
#include <cstdint>
#include <cuda/annotated_ptr>
#include <cuda_runtime.h>

using Kept = cuda::annotated_ptr<const float, cuda::access_property::persisting>;

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ float partial[8];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) sum += Kept(x)[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int w = 0; w < 8; ++w) total += partial[w];
    out[blockIdx.x] = total;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
