// Eight sums on the stack, indexed at run time and set before they are added to.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void by_turns(float* out, const float* x, int64_t n) {
  float sums[8];
  for (float& one : sums) one = 0.0f;
  const int64_t begin = blockIdx.x * n, end = begin + n;
  int turn = int((begin + threadIdx.x) % 7);
  for (int64_t at = begin + threadIdx.x; at < end; at += blockDim.x) {
    sums[turn] += x[at];
    turn = (turn + 3) % 8;
  }
  float total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  total += __shfl_xor_sync(~0u, total, 16);
  total += __shfl_xor_sync(~0u, total, 8);
  total += __shfl_xor_sync(~0u, total, 4);
  total += __shfl_xor_sync(~0u, total, 2);
  total += __shfl_xor_sync(~0u, total, 1);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  by_turns<<<dim3(unsigned(rows)), dim3(32), 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
