// One block walks over everything and carries its sum along: no workspace, no second launch.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void __launch_bounds__(1024, 1) carry_along(int* __restrict__ out, const int* __restrict__ x, int64_t n) {
  __shared__ int warps[32], carry;
  const unsigned lane = threadIdx.x & 31u, warp = threadIdx.x >> 5;
  if (threadIdx.x == 0) carry = 0;
  for (int64_t start = 0; start < n; start += 1024) {
    const int64_t i = start + threadIdx.x;
    int value = i < n ? x[i] : 0;
    for (unsigned o = 1; o < 32; o <<= 1) {
      const int left = __shfl_up_sync(~0u, value, o);
      value += lane >= o ? left : 0;
    }
    if (lane == 31) warps[warp] = value;
    __syncthreads();
    if (warp == 0) {
      int sum = warps[lane];
      for (unsigned o = 1; o < 32; o <<= 1) {
        const int left = __shfl_up_sync(~0u, sum, o);
        if (lane >= o) sum += left;
      }
      warps[lane] = sum;
    }
    __syncthreads();
    const int all = carry + (warp > 0 ? warps[warp - 1] : 0) + value;
    if (i < n) out[i] = all;
    __syncthreads();
    if (threadIdx.x == 1023) carry = all;
    __syncthreads();
  }
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  carry_along<<<1, 1024, 0, stream>>>(static_cast<int*>(out), static_cast<const int*>(x), n);
  return cudaGetLastError();
}
