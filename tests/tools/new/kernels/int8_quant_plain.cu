// A launcher in plain C++, without extern "C": int8 codes and a scale a row.
#include <cuda_fp16.h>

#include <cstdint>

static __global__ void quant_kernel(const half* x, int8_t* codes, float* scales, int cols) {
  __shared__ float scale;
  const half* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  if (threadIdx.x == 0) {
    float most = 1e-10f;
    for (int i = 0; i < cols; ++i) most = fmaxf(most, fabsf(__half2float(row[i])));
    scale = most / 127.0f;
    scales[blockIdx.x] = scale;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    const float code = rintf(__half2float(row[i]) / scale);
    codes[static_cast<int64_t>(blockIdx.x) * cols + i] = static_cast<int8_t>(code);
  }
}

// x: [rows, cols]
// codes: [rows, cols]
// scales: [rows]
void quant(const half* x, int8_t* codes, float* scales, int rows, int cols, cudaStream_t stream) {
  quant_kernel<<<rows, 256, 0, stream>>>(x, codes, scales, cols);
}
