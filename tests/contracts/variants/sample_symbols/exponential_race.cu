// Another sampler altogether: every symbol waits an exponential time by its weight, and the first one
// is drawn.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

__device__ __forceinline__ uint32_t stirred(uint32_t value) {
  value = (value ^ 61u) ^ (value >> 16);
  value *= 9u;
  value ^= value >> 4;
  value *= 0x27d4eb2du;
  return value ^ (value >> 15);
}

__global__ void race(int* __restrict__ samples, const float* __restrict__ weights, int64_t draws,
                     int symbols, uint32_t seed) {
  const int64_t place = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= draws) return;
  float least = INFINITY;
  int first = 0;
  for (int symbol = 0; symbol < symbols; ++symbol) {
    const float weight = weights[symbol];
    if (weight <= 0.0f) continue;
    const uint32_t bits = stirred(stirred(static_cast<uint32_t>(place) * 1031u + symbol) ^ seed);
    const float time = -logf(((bits >> 8) + 0.5f) * 0x1p-24f) / weight;
    if (time < least) {
      least = time;
      first = symbol;
    }
  }
  samples[place] = first;
}

}  // namespace

extern "C" cudaError_t sample_symbols(void* samples, const void* weights, int64_t draws,
                                      int64_t symbols, int64_t seed, cudaStream_t stream) {
  race<<<static_cast<unsigned>((draws + 127) / 128), 128, 0, stream>>>(
      static_cast<int*>(samples), static_cast<const float*>(weights), draws,
      static_cast<int>(symbols), static_cast<uint32_t>(seed));
  return cudaGetLastError();
}
