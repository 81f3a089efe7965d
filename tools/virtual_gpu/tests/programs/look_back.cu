// A prefix sum in one pass: each block waits until the one before has told its sum.
#include <cstdio>
#include <cuda/atomic>
#include <cuda_runtime.h>
#include <vector>

using Flag = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__global__ void scan(const unsigned* in, unsigned* out, unsigned* told, unsigned* sums) {
  __shared__ unsigned before;
  unsigned value = in[blockIdx.x * 32 + threadIdx.x];
  for (int step = 1; step < 32; step *= 2) {
    const unsigned other = __shfl_up_sync(~0u, value, step);
    if (threadIdx.x >= step) value += other;
  }
  if (threadIdx.x == 31) {
    before = 0;
    if (blockIdx.x) {
      while (!Flag(told[blockIdx.x - 1]).load(cuda::memory_order_acquire)) __nanosleep(20);
      before = *(volatile unsigned*)&sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = before + value;
    Flag(told[blockIdx.x]).store(1, cuda::memory_order_release);
  }
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = before + value;
}

int main() {
  const unsigned blocks = 700, n = 32 * blocks;
  std::vector<unsigned> host(n);
  for (unsigned i = 0; i < n; ++i) host[i] = i % 7;
  unsigned *in, *out, *told, *sums;
  cudaMalloc(&in, 4 * n), cudaMalloc(&out, 4 * n), cudaMalloc(&told, 4 * blocks), cudaMalloc(&sums, 4 * blocks);
  cudaMemcpy(in, host.data(), 4 * n, cudaMemcpyHostToDevice);
  cudaMemset(told, 0, 4 * blocks);
  scan<<<blocks, 32>>>(in, out, told, sums);
  std::vector<unsigned> got(n);
  cudaMemcpy(got.data(), out, 4 * n, cudaMemcpyDeviceToHost);
  unsigned total = 0;
  for (unsigned i = 0; i < n; ++i)
    if (got[i] != (total += host[i])) return printf("element %u\n", i), 1;
  cudaFree(in), cudaFree(out), cudaFree(told), cudaFree(sums);
  return cudaGetLastError();
}
