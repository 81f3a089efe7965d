// Asks how many multiprocessors there are in its first call, and allows the kernel its shared memory
// then: a static flag and a static number, which say the same in every later call.
#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kWarps = 8;

__global__ void fill_device(float* out, const float* x, long long rows, long long n) {
  extern __shared__ float scratch[];
  const int lane = threadIdx.x, slot = threadIdx.y;
  for (long long row = blockIdx.x * kWarps + slot; row < rows; row += gridDim.x * kWarps) {
    float a = 0.f, b = 0.f;
    long long column = lane;
    for (; column + 32 < n; column += 64) {
      a += x[row * n + column];
      b += x[row * n + column + 32];
    }
    if (column < n) a += x[row * n + column];
    scratch[slot * 32 + lane] = a + b;
    __syncwarp();
    if (lane == 0) {
      float whole = 0.f;
      for (int other = 0; other < 32; ++other) whole += scratch[slot * 32 + other];
      out[row] = whole;
    }
    __syncwarp();
  }
}

int multiprocessors() {
  static const int count = [] {
    int device = 0, found = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return found;
  }();
  return count;
}

}  // namespace

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  constexpr int kBytes = 96 * 1024;
  static bool allowed = false;
  if (!allowed) {
    const cudaError_t error =
        cudaFuncSetAttribute(fill_device, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (error != cudaSuccess) return error;
    allowed = true;
  }
  fill_device<<<multiprocessors(), dim3(32, kWarps), kBytes, stream>>>(
      static_cast<float*>(out), static_cast<const float*>(x), rows, n);
  return cudaGetLastError();
}
