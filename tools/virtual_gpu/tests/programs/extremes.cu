// The ends of what a launch may be: threads, shared memory, large indexes, an empty grid.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(float* out) {
  extern __shared__ float tile[];
  const int count = 100 * 1024 / 4;
  for (int i = threadIdx.x; i < count; i += blockDim.x) tile[i] = i;
  __syncthreads();
  out[threadIdx.x] = tile[count - 1 - threadIdx.x];
}

// `far` points n elements before what there is: only indexes above 2^31 reach it.
__global__ void index(const unsigned char* far, int64_t n, unsigned long long* sums) {
  const int64_t i = n + int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  atomicAdd(sums, (unsigned long long)(i));
  atomicAdd(sums + 1, (unsigned long long)(far[i]));
}

int main() {
  float* out;
  unsigned char* bytes;
  unsigned long long *sums, found[2];
  cudaMalloc(&out, 1024 * sizeof(float));
  cudaMalloc(&bytes, 256);
  cudaMalloc(&sums, sizeof found);
  cudaMemset(bytes, 3, 256);
  cudaMemset(sums, 0, sizeof found);
  fill<<<1, 1024, 100 * 1024>>>(out);
  const int refused = cudaGetLastError();
  cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024);
  fill<<<1, 1024, 100 * 1024>>>(out);
  float last;
  cudaMemcpy(&last, out + 1023, sizeof last, cudaMemcpyDeviceToHost);
  const int64_t n = (int64_t(1) << 31) + 5;
  index<<<8, 32>>>(bytes - n, n, sums);
  cudaMemcpy(found, sums, sizeof found, cudaMemcpyDeviceToHost);
  const int well = cudaGetLastError();
  fill<<<0, 32>>>(out);
  const int empty = cudaGetLastError();
  fill<<<1, 0>>>(out);
  std::printf("%d %g %llu %llu %d %d %d\n", refused, last, found[0], found[1], well, empty,
              int(cudaGetLastError()));
  cudaFree(out);
  cudaFree(bytes);
  cudaFree(sums);
}
