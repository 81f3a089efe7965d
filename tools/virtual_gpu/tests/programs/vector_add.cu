// The first program of every course.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 50000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2.0f * i;
  float *x, *y, *z;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMalloc(&z, n * sizeof(float));
  cudaMemcpy(x, a.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(y, b.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  add<<<(n + 255) / 256, 256>>>(x, y, z, n);
  if (const cudaError_t error = cudaGetLastError()) {
    std::printf("launch: %s\n", cudaGetErrorString(error));
    return 1;
  }
  cudaMemcpy(c.data(), z, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    if (c[i] != 3.0f * i) {
      std::printf("element %d is %g\n", i, c[i]);
      return 1;
    }
  cudaFree(x);
  cudaFree(y);
  cudaFree(z);
  std::printf("added %d elements\n", n);
  std::exit(0);
}
