// Captures a copy, a fill and two launches, and replays them three times.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(int* to, const int* what, int more) { to[threadIdx.x] += what[threadIdx.x] + more; }

int main() {
  int host[32], *total, *step;
  for (int i = 0; i < 32; ++i) host[i] = i;
  cudaMalloc(&total, sizeof host);
  cudaMalloc(&step, sizeof host);
  cudaMemset(total, 0, sizeof host);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  cudaMemcpyAsync(step, host, sizeof host, cudaMemcpyHostToDevice, stream);
  add<<<1, 32, 0, stream>>>(total, step, 1);
  cudaMemsetAsync(step, 0, sizeof host, stream);
  add<<<1, 32, 0, stream>>>(total, step, 10);
  if (cudaStreamEndCapture(stream, &graph)) return 1;
  if (cudaGraphInstantiate(&runnable, graph, 0)) return 2;
  cudaMemcpy(host, total, sizeof host, cudaMemcpyDeviceToHost);
  if (host[5] != 0) return 3;
  for (int i = 0; i < 32; ++i) host[i] = i;
  for (int i = 0; i < 3; ++i)
    if (cudaGraphLaunch(runnable, stream)) return 4;
  cudaStreamSynchronize(stream);
  cudaMemcpy(host, total, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; ++i)
    if (host[i] != 3 * (i + 11)) return 5;
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaFree(total);
  cudaFree(step);
  return 0;
}
