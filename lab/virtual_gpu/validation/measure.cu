// Times launchers of kernel libraries on a real GPU by replaying CUDA graphs of many launches, twice: cold, where
// each launch finds buffers that were pushed out of L2 since their last turn, and warm, always on the same buffers.
// Reads lines "LIBRARY LAUNCHER A B IN_BYTES OUT_BYTES IDS BELOW FILE"; prints one JSON object for each. The input starts
// with IDS int32 below BELOW; FILE gets what the first launch leaves in `out`, unless it is "-".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <vector>

using Launcher = int (*)(void*, const void*, int64_t, int64_t, cudaStream_t);
struct Point {
  Launcher launch;
  int64_t a, b;
};

static void require(int error, const char* what) {
  if (!error) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

// The words of points.py: ids first, then halves of 0 to 2.
__global__ void fill(uint32_t* words, uint64_t count, uint64_t ids, uint32_t below) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    x ^= x >> 13;
    words[i] = i < ids ? x % below : 0x38000000u | (x & 0x07ff3fffu);
  }
}

// Median over replays of the time per launch, in us.
static double replay_us(const Point& point, const std::vector<char*>& in, const std::vector<char*>& out, int launches,
                        cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i)
    require(point.launch(out[i % out.size()], in[i % in.size()], point.a, point.b, stream), "launch");
  require(cudaStreamEndCapture(stream, &graph), "end capture");
  require(cudaGraphInstantiate(&runnable, graph, 0), "instantiate");
  cudaEvent_t start, end;
  require(cudaEventCreate(&start), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int i = 0; i < 9; ++i) {
    require(cudaEventRecord(start, stream), "record");
    require(cudaGraphLaunch(runnable, stream), "replay");
    require(cudaEventRecord(end, stream), "record");
    require(cudaEventSynchronize(end), "synchronize");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start, end), "elapsed");
    if (i >= 2) times.push_back(ms);
  }
  cudaEventDestroy(start);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e3 / launches;
}

static void keep_output(const Point& point, const char* in, char* out, size_t bytes, const char* name, cudaStream_t stream) {
  require(point.launch(out, in, point.a, point.b, stream), "launch");
  require(cudaStreamSynchronize(stream), "first launch");
  std::vector<char> result(bytes);
  require(cudaMemcpy(result.data(), out, bytes, cudaMemcpyDeviceToHost), "copy back");
  std::FILE* file = std::fopen(name, "wb");
  if (!file || std::fwrite(result.data(), 1, bytes, file) != bytes || std::fclose(file)) std::perror(name), std::exit(1);
}

int main() {
  cudaStream_t stream;
  require(cudaStreamCreate(&stream), "stream");
  cudaDeviceProp device;
  require(cudaGetDeviceProperties(&device, 0), "device");
  std::fprintf(stderr, "GPU: %s\n", device.name);
  // Between two turns of a buffer, five times L2 is touched.
  const size_t rotated = 5 * static_cast<size_t>(device.l2CacheSize);
  char library_name[1024], launcher_name[256], kept_name[1024];
  Point point;
  size_t in_bytes, out_bytes, ids;
  uint32_t below;
  while (std::scanf("%1023s %255s %ld %ld %zu %zu %zu %u %1023s", library_name, launcher_name, &point.a, &point.b,
                    &in_bytes, &out_bytes, &ids, &below, kept_name) == 9) {
    void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    point.launch = reinterpret_cast<Launcher>(dlsym(library, launcher_name));
    if (!point.launch) return std::fprintf(stderr, "no %s\n", launcher_name), 1;
    const size_t result_bytes = out_bytes;
    in_bytes = (in_bytes + 4095) / 4096 * 4096, out_bytes = (out_bytes + 4095) / 4096 * 4096;
    const size_t sets = std::min<size_t>(2500, std::max<size_t>(2, rotated / (in_bytes + out_bytes)));
    char *in_pool, *out_pool;
    require(cudaMalloc(&in_pool, sets * in_bytes), "allocate");
    require(cudaMalloc(&out_pool, sets * out_bytes), "allocate");
    std::vector<char*> in, out;
    for (size_t s = 0; s < sets; ++s) {
      in.push_back(in_pool + s * in_bytes);
      out.push_back(out_pool + s * out_bytes);
      fill<<<256, 256, 0, stream>>>(reinterpret_cast<uint32_t*>(in.back()), in_bytes / 4, ids, below);
    }
    require(cudaMemsetAsync(out_pool, 0, sets * out_bytes, stream), "clear");
    if (kept_name[0] != '-') keep_output(point, in[0], out[0], result_bytes, kept_name, stream);
    const int launches = static_cast<int>(std::max<size_t>(sets, 20));
    const double cold = replay_us(point, in, out, launches, stream);
    const double warm = replay_us(point, {in[0]}, {out[0]}, launches, stream);
    std::printf("{\"launcher\": \"%s\", \"a\": %ld, \"b\": %ld, \"cold_us\": %.3f, \"warm_us\": %.3f}\n", launcher_name,
                point.a, point.b, cold, warm);
    std::fflush(stdout);
    require(cudaFree(in_pool), "free");
    require(cudaFree(out_pool), "free");
  }
}
