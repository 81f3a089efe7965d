// Rows times ones on tensor cores in double precision: mma.m8n8k4.f64 adds up four columns of eight rows.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void ones(float* out, const float* x, int64_t rows, int64_t n) {
  const int lane = threadIdx.x;
  const int64_t row = int64_t(blockIdx.x) * 8 + lane / 4;
  double d0 = 0.0, d1 = 0.0;
  const double one = 1.0;
  for (int64_t k = 0; k < n; k += 4) {
    const int64_t i = k + lane % 4;
    const double a = row < rows && i < n ? double(x[row * n + i]) : 0.0;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(d0), "+d"(d1) : "d"(a), "d"(one));
  }
  if (lane % 4 == 0 && row < rows) out[row] = float(d0);
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  ones<<<unsigned((rows + 7) / 8), 32, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
