// One launch: blocks add up in module memory that the last of them copies out and clears again, with its ticket.
#include <cstdint>
#include <cuda_runtime.h>

__device__ unsigned total[256], ticket;

__global__ void gather_up(float* counts, const float* x, int64_t n) {
  __shared__ unsigned own[256];
  __shared__ bool last;
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = blockIdx.x * int64_t(256) + threadIdx.x; i < n; i += int64_t(gridDim.x) * 256) {
    const float scaled = 16.0f * fabsf(x[i]);
    atomicAdd(&own[scaled < 255.0f ? int(scaled) : 255], 1u);
  }
  __syncthreads();
  atomicAdd(&total[threadIdx.x], own[threadIdx.x]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    __threadfence();
    counts[threadIdx.x] = float(atomicExch(&total[threadIdx.x], 0u));
  }
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  gather_up<<<unsigned(n < 65536 ? (n + 1023) / 1024 : 64), 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
