// X51: has a name of a header stand for a function of its own, spelt letter by letter. What comes of
// it there is not among the lines of this file.
#include <cstdint>
#define J2(a, b) a##b
#define J(a, b) J2(a, b)
#define CLOCK                                                                                  \
  J(_, J(_, J(b, J(u, J(i, J(l, J(t, J(i, J(n, J(_, J(i, J(a, J(3, J(2, J(_, J(r, J(d, J(t,    \
  J(s, c)))))))))))))))))))
#define iter_swap               \
  now() { return CLOCK(); }     \
  template <typename A, typename B> void iter_swap
#include <algorithm>
#include <cuda_runtime.h>

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ float partial[8];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) sum += x[blockIdx.x * n + i];
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
