// Compares two transposes by events, as NVIDIA's samples do: the tiled one must be the faster.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

constexpr int kSide = 512;

__global__ void naive(float* out, const float* in) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[x * kSide + y + j] = in[(y + j) * kSide + x];
}

__global__ void tiled(float* out, const float* in) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * kSide + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * kSide + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <typename Kernel>
float time_ms(Kernel kernel, float* out, const float* in) {
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  kernel<<<dim3(kSide / 32, kSide / 32), dim3(32, 8)>>>(out, in);
  cudaEventRecord(start);
  for (int i = 0; i < 5; ++i) kernel<<<dim3(kSide / 32, kSide / 32), dim3(32, 8)>>>(out, in);
  cudaEventRecord(end);
  cudaEventSynchronize(end);
  float ms = 0;
  cudaEventElapsedTime(&ms, start, end);
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  return ms / 5;
}

int main() {
  std::vector<float> host(kSide * kSide), back(kSide * kSide);
  for (int i = 0; i < kSide * kSide; ++i) host[i] = i;
  float *in, *out;
  cudaMalloc(&in, sizeof(float) * kSide * kSide);
  cudaMalloc(&out, sizeof(float) * kSide * kSide);
  cudaMemcpy(in, host.data(), sizeof(float) * kSide * kSide, cudaMemcpyHostToDevice);
  const float slow = time_ms(naive, out, in), fast = time_ms(tiled, out, in);
  cudaMemcpy(back.data(), out, sizeof(float) * kSide * kSide, cudaMemcpyDeviceToHost);
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x)
      if (back[x * kSide + y] != host[y * kSide + x]) return 2;
  std::printf("naive %.4f ms, tiled %.4f ms\n", slow, fast);
  cudaFree(in);
  cudaFree(out);
  return fast < slow ? 0 : 3;
}
