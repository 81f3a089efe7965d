// The input through a pointer that says it is read once (cuda::access_property), counters in shared
// memory, two copies of each to keep lanes apart.
#include <cuda/annotated_ptr>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

using Once = cuda::annotated_ptr<const float, cuda::access_property::streaming>;

__device__ int bin_of(float x) {
  const float scaled = 16.0f * fabsf(x);
  return scaled < 255.0f ? static_cast<int>(scaled) : 255;
}

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ unsigned bins[2][256];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) bins[i / 256][i % 256] = 0;
  __syncthreads();
  const Once in(x);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    atomicAdd(&bins[threadIdx.x & 1][bin_of(in[i])], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) counts[b] = float(bins[0][b] + bins[1][b]);
}

}  // namespace

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  count<<<1, 1024, 0, stream>>>(static_cast<float*>(counts), static_cast<const float*>(x), n);
  return cudaGetLastError();
}
