// Copies to the host: of padding, fills and copied bytes (all right), and of what nothing, or not everything, wrote.
#include <cstdio>
#include <cuda_runtime.h>

struct Padded {
  char tag;
  double value;
};

__global__ void write(Padded* out) {
  out[threadIdx.x].tag = 1;
  out[threadIdx.x].value = 2;
}
__global__ void past_the_end(int* out) { out[1 << 20] = 1; }

int main(int argc, char**) {
  static char host[16384];
  Padded *padded, *twin, *big;
  char *filled, *copied, *rows, *never, *rest, *half;
  size_t pitch;
  cudaMalloc(&padded, 32 * sizeof(Padded));
  cudaMalloc(&twin, 32 * sizeof(Padded));
  cudaMalloc(&big, 200 * sizeof(Padded));
  cudaMalloc(&filled, 256);
  cudaMalloc(&copied, 256);
  cudaMalloc(&never, 4096);
  cudaMallocPitch(&rows, &pitch, 100, 8);
  cudaMallocPitch(&half, &pitch, 100, 8);
  cudaMalloc(&rest, 1000);
  if (argc > 1) past_the_end<<<1, 1>>>(reinterpret_cast<int*>(never));
  write<<<1, 32>>>(padded);
  write<<<1, 100>>>(big);
  cudaMemset(filled, 0, 256);
  cudaMemcpy(copied, host, 256, cudaMemcpyHostToDevice);
  cudaMemcpy(twin, padded, 32 * sizeof(Padded), cudaMemcpyDeviceToDevice);
  cudaMemset2D(rows, pitch, 0, 100, 8);
  cudaMemset2D(half, pitch, 0, 100, 4);
  cudaMemset(rest, 0, 996);
  cudaMemcpy(host, padded, 32 * sizeof(Padded), cudaMemcpyDeviceToHost);
  cudaMemcpy(host, twin, 32 * sizeof(Padded), cudaMemcpyDefault);
  cudaMemcpy(host, big, 100 * sizeof(Padded), cudaMemcpyDeviceToHost);
  cudaMemcpy(host, filled, 256, cudaMemcpyDeviceToHost);
  cudaMemcpy(host, copied, 256, cudaMemcpyDeviceToHost);
  cudaMemcpy(host, rows, 8 * pitch, cudaMemcpyDeviceToHost);
  cudaMemcpy2D(host, 100, rows, pitch, 100, 8, cudaMemcpyDeviceToHost);

  cudaMemcpy(host, never, 1024, cudaMemcpyDeviceToHost);  // BUG
  cudaMemcpy(host, never + 64, 8, cudaMemcpyDefault);     // BUG, told already
  cudaMemcpy2D(host, 50, half + 4 * pitch, pitch, 50, 3, cudaMemcpyDeviceToHost);  // BUG
  cudaMemcpy2D(host, 100, half + 2 * pitch, pitch, 100, 4, cudaMemcpyDeviceToHost);  // BUG, told already
  cudaMemcpy(host, big, 200 * sizeof(Padded), cudaMemcpyDeviceToHost);  // BUG: one half was written
  cudaMemcpy(host, rest, 1000, cudaMemcpyDeviceToHost);  // BUG: but for the last word
  for (void* each : {(void*)padded, (void*)twin, (void*)big, (void*)filled, (void*)copied, (void*)never, (void*)rows,
                     (void*)half, (void*)rest})
    cudaFree(each);
}
