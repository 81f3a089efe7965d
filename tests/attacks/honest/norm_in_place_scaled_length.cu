// Length as hypot does it: the largest element first, then the sum of squares of the quotients.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int WIDTH = 128;

template <typename Combine>
__device__ float over_block(float mine, float* slots, Combine combine) {
  slots[threadIdx.x] = mine;
  for (int half = WIDTH / 2; half; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < half) slots[threadIdx.x] = combine(slots[threadIdx.x], slots[threadIdx.x + half]);
  }
  __syncthreads();
  const float all = slots[0];
  __syncthreads();
  return all;
}

template <typename T>
__global__ void unit_rows(T* matrix, float* lengths, int64_t n, float eps) {
  __shared__ float slots[WIDTH];
  T* row = matrix + int64_t(blockIdx.x) * n;
  float top = 0.0f, squares = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += WIDTH) top = fmaxf(top, fabsf(float(row[i])));
  top = over_block(top, slots, [](float a, float b) { return fmaxf(a, b); });
  const int exponent = top > 0.0f ? max(ilogbf(top), -32) : 0;  // below, eps is all there is
  for (int64_t i = threadIdx.x; i < n; i += WIDTH) {
    const float scaled = scalbnf(float(row[i]), -exponent);
    squares = fmaf(scaled, scaled, squares);
  }
  squares = over_block(squares, slots, [](float a, float b) { return a + b; });
  squares += scalbnf(eps, -2 * exponent);
  const float length = scalbnf(sqrtf(squares), exponent);
  for (int64_t i = threadIdx.x; i < n; i += WIDTH) row[i] = T(float(row[i]) / length);
  if (threadIdx.x == 0) lengths[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows));
  if (dtype)
    unit_rows<<<grid, WIDTH, 0, stream>>>(static_cast<__half*>(x), static_cast<float*>(norms), n, eps);
  else
    unit_rows<<<grid, WIDTH, 0, stream>>>(static_cast<float*>(x), static_cast<float*>(norms), n, eps);
  return cudaGetLastError();
}
