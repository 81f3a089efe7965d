// Times the launchers of kernel libraries on a real GPU: CUDA-graph replay, cold (buffers rotate past L2) and warm.
// Prints one JSON object a line: launcher, rows, d, dtype, cold_us, warm_us. Usage: measure LIBRARY LAUNCHER ROWS D DTYPE ...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <vector>

using Launcher = int (*)(void*, const void*, int64_t, int64_t, int, cudaStream_t);

static void require(int error, const char* what) {
  if (error) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
    std::exit(1);
  }
}

// Median over replays of the time per launch, in us.
static double replay_us(Launcher launch, const std::vector<char*>& in, const std::vector<char*>& out, int64_t rows,
                        int64_t d, int dtype, int launches, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i)
    require(launch(out[i % out.size()], in[i % in.size()], rows, d, dtype, stream), "launch");
  require(cudaStreamEndCapture(stream, &graph), "end capture");
  require(cudaGraphInstantiate(&runnable, graph, 0), "instantiate");
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = 0; i < 12; ++i) {
    cudaEventRecord(start, stream);
    require(cudaGraphLaunch(runnable, stream), "replay");
    cudaEventRecord(end, stream);
    require(cudaEventSynchronize(end), "synchronize");
    float ms = 0;
    cudaEventElapsedTime(&ms, start, end);
    if (i >= 2) times.push_back(ms);
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e3 / launches;
}

int main(int argc, char** argv) {
  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "stream");
  constexpr size_t kPool = size_t{3} << 30;
  char *in_pool, *out_pool;
  require(cudaMalloc(&in_pool, kPool), "allocate");
  require(cudaMalloc(&out_pool, kPool), "allocate");
  require(cudaMemset(in_pool, 0x38, kPool), "fill");
  for (int i = 1; i + 4 < argc; i += 5) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    auto launch = reinterpret_cast<Launcher>(dlsym(library, argv[i + 1]));
    if (!launch) return std::fprintf(stderr, "no %s\n", argv[i + 1]), 1;
    const int64_t rows = std::atoll(argv[i + 2]), d = std::atoll(argv[i + 3]);
    const int dtype = std::atoi(argv[i + 4]);
    const size_t bytes = (rows * 2 * d * (dtype ? 2 : 4) + 4095) / 4096 * 4096;
    // Enough sets to push each other out of L2 before their turn comes again.
    const size_t sets = std::min<size_t>(4000, std::max<size_t>(2, (size_t{512} << 20) / bytes));
    std::vector<char*> in, out;
    for (size_t s = 0; s < sets; ++s) {
      in.push_back(in_pool + s * bytes);
      out.push_back(out_pool + s * bytes);
    }
    const int launches = static_cast<int>(std::max<size_t>(sets, 20));
    const double cold = replay_us(launch, in, out, rows, d, dtype, launches, stream);
    const double warm = replay_us(launch, {in[0]}, {out[0]}, rows, d, dtype, launches, stream);
    std::printf("{\"launcher\": \"%s\", \"rows\": %ld, \"d\": %ld, \"dtype\": %d, \"cold_us\": %.3f, \"warm_us\": %.3f}\n",
                argv[i + 1], static_cast<long>(rows), static_cast<long>(d), dtype, cold, warm);
    std::fflush(stdout);
  }
}
