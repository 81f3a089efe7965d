// A thread a draw: a hash of seed and place gives a number from 0 to 1, and a search among the running
// sums in shared memory the symbol.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMost = 1024;

__device__ __forceinline__ uint32_t mixed(uint32_t value) {
  value ^= value >> 16;
  value *= 0x7feb352du;
  value ^= value >> 15;
  value *= 0x846ca68bu;
  return value ^ (value >> 16);
}

__device__ __forceinline__ float uniform(uint32_t seed, uint32_t place) {
  return (mixed(mixed(place) ^ mixed(seed + 0x9e3779b9u)) >> 8) * 0x1p-24f;
}

__global__ void sample(int* __restrict__ samples, const float* __restrict__ weights, int64_t draws,
                       int symbols, uint32_t seed) {
  __shared__ float sums[kMost];
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int symbol = 0; symbol < symbols; ++symbol) {
      sum += weights[symbol];
      sums[symbol] = sum;
    }
  }
  __syncthreads();
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (place >= draws) return;
  const float wanted = uniform(seed, static_cast<uint32_t>(place)) * sums[symbols - 1];
  int low = 0, high = symbols - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sums[middle] > wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  samples[place] = low;
}

}  // namespace

extern "C" cudaError_t sample_symbols(void* samples, const void* weights, int64_t draws,
                                      int64_t symbols, int64_t seed, cudaStream_t stream) {
  sample<<<static_cast<unsigned>((draws + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      static_cast<int*>(samples), static_cast<const float*>(weights), draws,
      static_cast<int>(symbols), static_cast<uint32_t>(seed));
  return cudaGetLastError();
}
