// Bins are found by bisection in a table of edges that the compiler computes, in constant memory.
#include <array>
#include <cstdint>
#include <cuda_runtime.h>

namespace {

struct Edges {
  float least[256];
};

constexpr Edges edges() {
  Edges made{};
  for (int bin = 0; bin < 256; ++bin) made.least[bin] = float(bin) / 16.0f;
  return made;
}

__constant__ Edges table = edges();

__device__ __forceinline__ int bin_of(float magnitude) {
  if (!(magnitude == magnitude)) return 255;
  int low = 0;
#pragma unroll
  for (int step = 128; step > 0; step >>= 1)
    if (magnitude >= table.least[low + step]) low += step;
  return low;
}

__global__ void tally(float* __restrict__ counts, const float* __restrict__ x, int64_t n) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < n; at += step)
    atomicAdd(&own[bin_of(fabsf(__ldg(x + at)))], 1u);
  __syncthreads();
  if (const unsigned found = own[threadIdx.x]) atomicAdd(counts + threadIdx.x, float(found));
}

}  // namespace

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaError_t status = cudaMemsetAsync(counts, 0, 1024, stream);
  if (status != cudaSuccess) return status;
  const int64_t blocks = (n + 1023) / 1024;
  tally<<<unsigned(blocks < 264 ? blocks : 264), 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
