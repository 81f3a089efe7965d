// Blelloch's tree: sums go up through shared memory, then down; tiles of 512 and a second level of the same.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int tree(int* s) {  // exclusive, in place; the total
  for (int d = 256, o = 1; d > 0; d >>= 1, o <<= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[o * (2 * threadIdx.x + 2) - 1] += s[o * (2 * threadIdx.x + 1) - 1];
  }
  __syncthreads();
  const int total = s[511];
  __syncthreads();
  if (threadIdx.x == 0) s[511] = 0;
  for (int d = 1, o = 256; d < 512; d <<= 1, o >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) {
      int &left = s[o * (2 * threadIdx.x + 1) - 1], &right = s[o * (2 * threadIdx.x + 2) - 1];
      const int held = left;
      left = right;
      right += held;
    }
  }
  __syncthreads();
  return total;
}

__global__ void level(int* out, int* totals, const int* x, int64_t n, bool inclusive) {
  __shared__ int s[512];
  const int64_t first = blockIdx.x * int64_t(512) + threadIdx.x, second = first + 256;
  const int a = first < n ? x[first] : 0, b = second < n ? x[second] : 0;
  s[threadIdx.x] = a, s[threadIdx.x + 256] = b;
  const int total = tree(s);
  if (first < n) out[first] = s[threadIdx.x] + (inclusive ? a : 0);
  if (second < n) out[second] = s[threadIdx.x + 256] + (inclusive ? b : 0);
  if (threadIdx.x == 0 && totals) totals[blockIdx.x] = total;
}

__global__ void add(int* out, const int* before, int64_t n, int shift) {
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i < n) out[i] += before[i >> shift];
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  int *sums = (int*)room, *tops = sums + (n + 511) / 512;
  const int64_t tiles = (n + 511) / 512, groups = (tiles + 511) / 512;
  level<<<unsigned(tiles), 256, 0, stream>>>((int*)out, sums, (const int*)x, n, true);
  if (tiles > 1) {
    if (groups > 1) {
      level<<<unsigned(groups), 256, 0, stream>>>(sums, tops, sums, tiles, false);
      level<<<1, 256, 0, stream>>>(tops, nullptr, tops, groups, false);
      add<<<unsigned((tiles + 255) / 256), 256, 0, stream>>>(sums, tops, tiles, 9);
    } else {
      level<<<1, 256, 0, stream>>>(sums, nullptr, sums, tiles, false);
    }
    add<<<unsigned((n + 255) / 256), 256, 0, stream>>>((int*)out, sums, n, 9);
  }
  return cudaGetLastError();
}
