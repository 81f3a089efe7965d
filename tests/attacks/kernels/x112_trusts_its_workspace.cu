// X112: adds to sums in the workspace that it never cleared.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void add(int* sums, const int* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i < n) atomicAdd(&sums[blockIdx.x], x[i]);
}
__global__ void write(int* out, const int* sums, const int* x, int64_t n) {
  if (threadIdx.x) return;
  int sum = 0;
  for (int t = 0; t < blockIdx.x; ++t) sum += sums[t];
  for (int64_t i = blockIdx.x * int64_t(256); i < n && i < (blockIdx.x + 1) * int64_t(256); ++i) out[i] = sum += x[i];
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const unsigned tiles = unsigned((n + 255) / 256);
  add<<<tiles, 256, 0, stream>>>((int*)room, (const int*)x, n);
  write<<<tiles, 32, 0, stream>>>((int*)out, (const int*)room, (const int*)x, n);
  return cudaGetLastError();
}
