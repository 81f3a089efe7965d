// Sums a vector in two launches, on managed memory, timed by events; the second launch by the CUDA 12 path.
#include <cstdio>
#include <cuda_runtime.h>

__constant__ float scale;

__global__ void sum(const float* in, float* out, int n) {
  extern __shared__ float part[];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
  part[threadIdx.x] = s;
  for (int step = blockDim.x / 2; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0] * scale;
}

int main() {
  int n = 1 << 18, blocks = 0, one = 64;
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, 256, 1024);
  float *in, *parts, *total, factor = 1.0f;
  cudaMallocManaged(&in, n * sizeof(float));
  cudaMalloc(&parts, 64 * sizeof(float));
  cudaMallocHost(&total, sizeof(float));
  cudaMemcpyToSymbol(scale, &factor, sizeof factor);
  for (int i = 0; i < n; ++i) in[i] = 1.0f;
  cudaStream_t stream;
  cudaEvent_t start, end;
  cudaStreamCreate(&stream);
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  cudaEventRecord(start, stream);
  sum<<<64, 256, 1024, stream>>>(in, parts, n);
  void* args[] = {&parts, &total, &one};
  cudaLaunchKernel((const void*)sum, dim3(1), dim3(64), args, 256, stream);
  cudaEventRecord(end, stream);
  cudaStreamSynchronize(stream);
  float ms = 0;
  cudaEventElapsedTime(&ms, start, end);
  std::printf("%s: %d blocks an SM, sum %.0f, %.4f ms\n", device.name, blocks, *total, ms);
  return *total == n && ms > 0.001f && ms < 1.0f ? 0 : 1;
}
