// A capture that goes well, one that a waiting call spoils, and one of a memory node.
#include <cstdio>
__global__ void count(float* d) { d[threadIdx.x] += 1; }
int main(int, char** words) {
  float *d, *more, found;
  cudaStream_t s;
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaMalloc(&d, 128);
  cudaMemset(d, 0, 128);
  cudaStreamCreate(&s);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
  count<<<1, 32, 0, s>>>(d);
  if (cudaMalloc(&more, 128)) return 4;
  if (words[1][0] == 'w' && cudaDeviceSynchronize() != cudaErrorStreamCaptureUnsupported) return 5;
  if (words[1][0] == 'm') cudaMallocAsync(&more, 128, s);
  if (words[1][0] == 'w') return cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated ? 0 : 6;
  if (cudaStreamEndCapture(s, &graph) || cudaGraphInstantiate(&ready, graph, 0)) return 7;
  cudaGraphLaunch(ready, s);
  if (cudaStreamSynchronize(s)) return 8;
  cudaMemcpy(&found, d, 4, cudaMemcpyDefault);
  return found == 1 ? 0 : 9;
}
