// What a kernel of a CUDA graph takes before and after another stream of the process has run some:
//   nvcc -O3 -arch=native docs/research/launch_state.cu -o launch_state && ./launch_state
// docs/research/measurements.md says what came of it on an H200.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

constexpr int kLaunches = 340;                           // together twice the L2 of an H200
constexpr size_t kVectors = 16 * 2 * 4096 * 2 / 16;      // of 16 bytes: what one launch reads
constexpr int kThreads = 128, kBlocks = kVectors / 2 / kThreads;

__global__ void nothing(int* never) {
  if (never == reinterpret_cast<int*>(1)) *never = 1;
}

__global__ void read(const uint4* from, int* never) {
  const size_t i = 2 * (blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x);
  const uint4 a = __ldg(from + i), b = __ldg(from + i + 1);
  if ((a.x ^ b.x ^ a.y ^ b.z) == 0x13579bdu) *never = 1;
}

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorString(error));
  std::exit(1);
}

static uint4* source;
static int* never;
static cudaStream_t stream;

static void launch(bool reads, int index) {
  if (reads) read<<<kBlocks, kThreads, 0, stream>>>(source + index * kVectors, never);
  else nothing<<<kBlocks, kThreads, 0, stream>>>(never);
}

static cudaGraphExec_t recorded(bool reads) {
  cudaGraph_t graph;
  cudaGraphExec_t made;
  launch(reads, 0);
  check(cudaStreamSynchronize(stream));
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kLaunches; ++i) launch(reads, i);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&made, graph, 0ull));
  return made;
}

static float microseconds(cudaGraphExec_t graph) {  // of one launch; the median of seven replays
  cudaEvent_t start, end;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  std::vector<float> each;
  for (int replay = -1; replay < 7; ++replay) {
    check(cudaEventRecord(start, stream));
    check(cudaGraphLaunch(graph, stream));
    check(cudaEventRecord(end, stream));
    check(cudaStreamSynchronize(stream));
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, start, end));
    if (replay >= 0) each.push_back(1000.0f * ms / kLaunches);
  }
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

int main() {
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaMalloc(&source, kLaunches * kVectors * sizeof(uint4)));
  check(cudaMalloc(&never, sizeof(int)));
  check(cudaMemset(source, 0x3c, kLaunches * kVectors * sizeof(uint4)));
  const cudaGraphExec_t empty = recorded(false), reading = recorded(true);
  for (int turn = 0; turn < 4; ++turn) {
    std::printf("after %2d kernels on another stream: nothing %.3f us, read %.3f us\n", 10 * turn,
                microseconds(empty), microseconds(reading));
    for (int i = 0; i < 10; ++i) nothing<<<64, kThreads>>>(never);
    check(cudaDeviceSynchronize());
  }
  return 0;
}
