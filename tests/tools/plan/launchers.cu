// Launchers of silu_and_mul's contract for the plan recorder's tests: honest ones first, then those
// that a recorder must refuse. One library: a test picks one by its name.

#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

struct Mixed {
  float* out;
  int count;  // four bytes of padding follow
  const float* input;
  char last;  // seven bytes of padding follow
};
struct Large {
  char bytes[5000];
};
struct alignas(64) Map {
  char bytes[128];
};

__device__ float table[64];

__global__ void plain(float* out, const float* input, int d) { out[threadIdx.x] = input[d]; }
__global__ void mixed(Mixed call) { call.out[0] = call.input[call.count] + call.last; }
__global__ void large(Large block, float* out) { out[threadIdx.x] = block.bytes[threadIdx.x]; }
__global__ void staged(float* out) {
  extern __shared__ float shared[];
  shared[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}
__global__ void together(float* out) {
  cooperative_groups::this_grid().sync();
  out[blockIdx.x] = 1;
}
__global__ void mapped(const __grid_constant__ Map map, float* out) { out[0] = map.bytes[3]; }
__global__ void halves(unsigned low, unsigned high, float* out) { out[0] = low + high; }
__global__ void number(uint64_t value, float* out) { out[0] = value; }
__global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 2; }
__global__ void reads_table(const float* values, float* out) { out[0] = values[0] + table[1]; }

#define LAUNCHER(name)                                                                             \
  extern "C" cudaError_t name(void* out_, const void* input_, int64_t tokens, int64_t d, int dtype, \
                              cudaStream_t stream)
#define ARGUMENTS                                \
  float* out = static_cast<float*>(out_);        \
  const float* input = static_cast<const float*>(input_); \
  (void)out, (void)input, (void)dtype, (void)tokens, (void)d, (void)stream;

static cudaError_t usual(float* out, const float* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  plain<<<static_cast<unsigned>(tokens), 32, 0, stream>>>(out, input, static_cast<int>(d));
  return cudaGetLastError();
}

// Honest.

LAUNCHER(simple) { ARGUMENTS return usual(out, input, tokens, d, stream); }

LAUNCHER(nothing) { ARGUMENTS return cudaSuccess; }

LAUNCHER(padded) {
  ARGUMENTS
  Mixed call;
  call.out = out + 4, call.count = static_cast<int>(d), call.input = input, call.last = 'x';
  mixed<<<1, 32, 0, stream>>>(call);
  return cudaGetLastError();
}

LAUNCHER(large_parameters) {
  ARGUMENTS
  Large block = {};
  block.bytes[4999] = 7;
  large<<<1, 32, 0, stream>>>(block, out + tokens * d / 2);  // one past the end
  return cudaGetLastError();
}

LAUNCHER(pointer_before) {  // added again in the kernel
  ARGUMENTS
  plain<<<1, 32, 0, stream>>>(out, input - 4096, 3);
  return cudaGetLastError();
}

LAUNCHER(null_pointer) {
  ARGUMENTS
  plain<<<1, 32, 0, stream>>>(out, nullptr, 3);
  return cudaGetLastError();
}

LAUNCHER(once) {  // opts in and asks for the number of SMs in the first call only
  ARGUMENTS
  static int sms = 0;
  static bool allowed = false;
  if (!allowed) {
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    cudaFuncSetAttribute(staged, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
    cudaFuncSetAttribute(staged, cudaFuncAttributePreferredSharedMemoryCarveout, 75);
    allowed = true;
  }
  staged<<<sms, 64, 100000, stream>>>(out);
  return cudaGetLastError();
}

LAUNCHER(properties) {
  ARGUMENTS
  static const cudaDeviceProp device = [] {
    cudaDeviceProp found;
    cudaGetDeviceProperties(&found, 0);
    return found;
  }();
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, staged, 256, 4096);
  staged<<<device.multiProcessorCount * blocks, 256, 4096, stream>>>(out);
  return cudaGetLastError();
}

LAUNCHER(attributed) {  // PDL and a cluster, then a cooperative launch
  ARGUMENTS
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = 2, attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {dim3(8), dim3(64), 0, stream, attributes, 2};
  cudaError_t error = cudaLaunchKernelEx(&config, bounded, out);
  void* args[] = {&out};
  if (!error) error = cudaLaunchCooperativeKernel((const void*)together, dim3(4), dim3(32), args, 0, stream);
  return error;
}

LAUNCHER(memory) {
  ARGUMENTS
  const size_t row = static_cast<size_t>(d) * 2;
  cudaMemsetAsync(out, 0x5a, row, stream);
  cudaMemset2DAsync(out, row, 0, 8, static_cast<size_t>(tokens), stream);
  cudaMemcpyAsync(out, input + 1, 16, cudaMemcpyDeviceToDevice, stream);
  return cudaMemcpy2DAsync(out, row, input, 2 * row, 8, static_cast<size_t>(tokens), cudaMemcpyDefault, stream);
}

LAUNCHER(variable) {
  ARGUMENTS
  static void* values = nullptr;
  if (!values) cudaGetSymbolAddress(&values, table);
  reads_table<<<1, 1, 0, stream>>>(static_cast<float*>(values) + 5, out);
  return cudaGetLastError();
}

LAUNCHER(clears_variable) {
  ARGUMENTS
  void* values = nullptr;
  cudaGetSymbolAddress(&values, table);
  cudaMemsetAsync(values, 0, 16, stream);
  reads_table<<<1, 1, 0, stream>>>(static_cast<float*>(values), out);
  return cudaGetLastError();
}

LAUNCHER(hands_over_variable) {
  ARGUMENTS
  void* values = nullptr;
  cudaGetSymbolAddress(&values, table);
  plain<<<1, 32, 0, stream>>>(static_cast<float*>(values), input, 1);
  return cudaGetLastError();
}

LAUNCHER(copies_to_variable) {
  ARGUMENTS
  void* values = nullptr;
  cudaGetSymbolAddress(&values, table);
  return cudaMemcpyAsync(values, input, 16, cudaMemcpyDeviceToDevice, stream);
}

LAUNCHER(tensor_map) {
  ARGUMENTS
  using Encode = CUresult (*)(Map*, int, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                              const cuuint32_t*, int, int, int, int);
  Encode encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void**)&encode, 12000,
                                                       cudaEnableDefault, &found);
  if (error || found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  Map map;
  const cuuint64_t dims[] = {static_cast<cuuint64_t>(2 * d), static_cast<cuuint64_t>(tokens)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(4 * d)};
  const cuuint32_t box[] = {64, 1}, steps[] = {1, 1};
  encode(&map, 6, 2, const_cast<float*>(input), dims, strides, box, steps, 0, 3, 2, 0);
  mapped<<<1, 32, 0, stream>>>(map, out);
  return cudaGetLastError();
}

LAUNCHER(by_alignment) {  // what a launcher may know of an address: its remainder by 1,024
  ARGUMENTS
  return usual(out, input, 1 + static_cast<int64_t>((uintptr_t)input % 1024), d, stream);
}

// A struct with padding, made where other functions' frames lay before.
__attribute__((noinline)) static cudaError_t launch_mixed(float* out, const float* input, int d, cudaStream_t stream) {
  Mixed call;
  call.out = out, call.count = d, call.input = input, call.last = 'y';
  mixed<<<1, 32, 0, stream>>>(call);
  return cudaGetLastError();
}
LAUNCHER(padded_in_old_frames) {
  ARGUMENTS
  cudaFuncAttributes attributes;
  int blocks = 0;
  cudaFuncGetAttributes(&attributes, mixed);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mixed, 128, 0);
  return launch_mixed(out, input, static_cast<int>(d), stream);
}

// Refused, or a crash.

LAUNCHER(null_dereference) { ARGUMENTS return static_cast<cudaError_t>(*(volatile int*)(tokens - tokens)); }
LAUNCHER(aborts) { ARGUMENTS abort(); }
LAUNCHER(leaves) { ARGUMENTS _exit(0); }
LAUNCHER(hangs) {
  ARGUMENTS
  for (volatile int turn = 0;; turn = turn + 1) {}
}
LAUNCHER(forks) {
  ARGUMENTS
  fork();
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(starts_thread) {
  ARGUMENTS
  pthread_t thread;
  pthread_create(&thread, nullptr, [](void* given) { return given; }, nullptr);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(writes_file) {
  ARGUMENTS
  open("left_behind", O_CREAT | O_WRONLY, 0600);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(reads_auxv) {
  ARGUMENTS
  open("/proc/self/auxv", O_RDONLY);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(prints) {
  ARGUMENTS
  static char text[1 << 16];
  for (int i = 0; i < 1 << 15; ++i) fwrite(text, 1, sizeof text, stdout);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(reads_clock) {
  ARGUMENTS
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return usual(out, input, now.tv_nsec % 7 + 1, d, stream);
}
LAUNCHER(reads_counter) { ARGUMENTS return usual(out, input, static_cast<int64_t>(__rdtsc() % 7) + 1, d, stream); }
LAUNCHER(reads_device) { ARGUMENTS return usual(out, input, static_cast<int64_t>(input[3]) + 1, d, stream); }
LAUNCHER(writes_device) {
  ARGUMENTS
  out[1] = 4;
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(counts_calls) {
  ARGUMENTS
  static int calls = 0;
  return usual(out, input, 1 + ++calls / 3, d, stream);
}
LAUNCHER(counts_in_parameter) {
  ARGUMENTS
  static int calls = 0;
  return usual(out, input, tokens, ++calls, stream);
}
LAUNCHER(hashes_address) {
  ARGUMENTS
  return usual(out, input, tokens, static_cast<int>((uintptr_t)out * 0x9e3779b97f4a7c15u >> 60), stream);
}
LAUNCHER(grid_from_address) { ARGUMENTS return usual(out, input, 1 + ((uintptr_t)input >> 16 & 63), d, stream); }
LAUNCHER(pointer_difference) {
  ARGUMENTS
  number<<<1, 1, 0, stream>>>((uintptr_t)out - (uintptr_t)input, out);
  return cudaGetLastError();
}
LAUNCHER(split_pointer) {
  ARGUMENTS
  const uintptr_t address = (uintptr_t)input;
  halves<<<1, 1, 0, stream>>>(static_cast<unsigned>(address) * 1u, static_cast<unsigned>(address >> 32), out);
  return cudaGetLastError();
}
LAUNCHER(shifted_pointer) {
  ARGUMENTS
  number<<<1, 1, 0, stream>>>((uintptr_t)input >> 4, out);
  return cudaGetLastError();
}
LAUNCHER(outside_pointer) {
  ARGUMENTS
  number<<<1, 1, 0, stream>>>((uintptr_t)input + (1 << 20), out);
  return cudaGetLastError();
}
LAUNCHER(far_before_pointer) {
  ARGUMENTS
  number<<<1, 1, 0, stream>>>((uintptr_t)input - (4 << 20), out);
  return cudaGetLastError();
}
LAUNCHER(memset_before) { ARGUMENTS return cudaMemsetAsync(out - 4, 0, 8, stream); }
LAUNCHER(stack_address) {
  ARGUMENTS
  volatile int local = 0;
  number<<<1, 1, 0, stream>>>((uintptr_t)&local, out);
  return cudaGetLastError();
}
LAUNCHER(stream_handle) {
  ARGUMENTS
  number<<<1, 1, 0, stream>>>((uintptr_t)stream, out);
  return cudaGetLastError();
}
LAUNCHER(allocates) {
  ARGUMENTS
  void* scratch = nullptr;
  cudaMalloc(&scratch, 64);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(own_stream) {
  ARGUMENTS
  cudaStream_t own;
  cudaStreamCreate(&own);
  return usual(out, input, tokens, d, own);
}
LAUNCHER(other_stream) { ARGUMENTS return usual(out, input, tokens, d, cudaStreamPerThread); }
LAUNCHER(other_stream_memset) { ARGUMENTS return cudaMemsetAsync(out, 0, 4, cudaStreamPerThread); }
LAUNCHER(makes_event) {
  ARGUMENTS
  cudaEvent_t event;
  cudaEventCreate(&event);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(host_function) {
  ARGUMENTS
  cudaLaunchHostFunc(stream, [](void*) {}, nullptr);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(host_copy) {
  ARGUMENTS
  float one = 1;
  return cudaMemcpyAsync(out, &one, sizeof one, cudaMemcpyHostToDevice, stream);
}
LAUNCHER(waits) { ARGUMENTS return cudaStreamSynchronize(stream); }
LAUNCHER(asks_clusters) {
  ARGUMENTS
  cudaLaunchConfig_t config = {dim3(8), dim3(64), 0, stream, nullptr, 0};
  int clusters = 0;
  cudaOccupancyMaxActiveClusters(&clusters, bounded, &config);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(asks_driver) {
  ARGUMENTS
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cudaGetDriverEntryPointByVersion("cuMemAlloc_v2", &found, 12000, cudaEnableDefault, &result);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(asks_bus) {
  ARGUMENTS
  int bus = 0;
  cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, 0);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(many_launches) {
  ARGUMENTS
  for (int i = 0; i < 300; ++i) usual(out, input, 1, i, stream);
  return cudaSuccess;
}
LAUNCHER(memset_outside) { ARGUMENTS return cudaMemsetAsync(out, 0, size_t{1} << 30, stream); }
LAUNCHER(too_many_threads) {
  ARGUMENTS
  bounded<<<1, 65, 0, stream>>>(out);
  return cudaGetLastError();
}
LAUNCHER(hides_error) {
  ARGUMENTS
  bounded<<<1, 2048, 0, stream>>>(out);
  return cudaSuccess;
}

// Writes lines of its own into every file that is open, in the place of the recorder's.
static void forge(const char* text, size_t bytes) {
  for (int file = 3; file < 16; ++file)
    if (write(file, text, bytes) < 0) continue;
}
#define FORGE(name, node)                                                                                  \
  LAUNCHER(name) {                                                                                         \
    ARGUMENTS                                                                                              \
    for (int index = 0; index < 64; ++index) {                                                             \
      char text[4096];                                                                                     \
      const int length = snprintf(text, sizeof text,                                                       \
                                  "\n{\"kind\":\"call\",\"index\":%d,\"nodes\":[%s],\"status\":0,"         \
                                  "\"left\":0,\"strayed\":0,\"refused\":\"\",\"error\":\"\"}\n", index, node);    \
      forge(text, static_cast<size_t>(length));                                                            \
    }                                                                                                      \
    _exit(0);                                                                                              \
  }
#define KERNEL_NODE(name, rest)                                                                    \
  "{\"kind\":\"kernel\",\"kernel\":\"" name "\",\"shared_carveout\":-1,\"cluster_scheduling\":0,"    \
  "\"programmatic\":false,\"cooperative\":false,\"maps\":[]," rest "}"
#define ZEROS "\"parameters\":\"0000000000000000\""

FORGE(forged_kernel, KERNEL_NODE("_Z5ghostPf", "\"grid\":[1,1,1],\"block\":[1,1,1],\"dynamic_shared_bytes\":0," ZEROS))
FORGE(forged_grid, KERNEL_NODE("_Z7boundedPf", "\"grid\":[1,0,1],\"block\":[1,1,1],\"dynamic_shared_bytes\":0," ZEROS))
FORGE(forged_block, KERNEL_NODE("_Z7boundedPf", "\"grid\":[1,1,1],\"block\":[65,1,1],\"dynamic_shared_bytes\":0," ZEROS))
FORGE(forged_shared, KERNEL_NODE("_Z7boundedPf", "\"grid\":[1,1,1],\"block\":[1,1,1],\"dynamic_shared_bytes\":300000," ZEROS))
FORGE(forged_parameters, KERNEL_NODE("_Z7boundedPf", "\"grid\":[1,1,1],\"block\":[1,1,1],\"dynamic_shared_bytes\":0,\"parameters\":\"00\""))
FORGE(forged_field, KERNEL_NODE("_Z7boundedPf", "\"grid\":[1,1,1],\"block\":[1,1,1],\"dynamic_shared_bytes\":0,\"surprise\":1," ZEROS))
FORGE(forged_memset, "{\"kind\":\"memset\",\"target\":4096,\"value\":0,\"width_bytes\":8,\"height\":1,\"pitch_bytes\":0}")

LAUNCHER(forged_facts) {  // nothing but boasting: its launches stay what they are
  ARGUMENTS
  for (int i = 0; i < 3000; ++i) {
    char text[128];
    const int length = snprintf(text, sizeof text, "{\"kind\":\"fact\",\"name\":\"%d %d\",\"value\":1}\n", i,
                                static_cast<int>(tokens));
    forge(text, static_cast<size_t>(length));
  }
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(large_launches) {
  ARGUMENTS
  for (int i = 0; i < 20; ++i) large<<<1, 32, 0, stream>>>(Large(), out);
  return cudaGetLastError();
}
LAUNCHER(forged_garbage) {
  ARGUMENTS
  forge("[[[[{\"kind\":\n", 14);
  return usual(out, input, tokens, d, stream);
}
LAUNCHER(forged_twice) {
  ARGUMENTS
  static const char line[] =
      "\n{\"kind\":\"call\",\"index\":0,\"nodes\":[],\"status\":0,\"left\":0,\"strayed\":0,\"refused\":\"\",\"error\":\"\"}\n";
  forge(line, sizeof line - 1);
  forge(line, sizeof line - 1);
  _exit(0);
}
LAUNCHER(forged_flood) {
  ARGUMENTS
  static char text[1 << 16];
  for (int i = 0; i < 1 << 12; ++i) forge(text, sizeof text);
  return usual(out, input, tokens, d, stream);
}
