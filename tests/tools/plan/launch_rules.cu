// Asks the CUDA runtime for occupancies, and tries launches, drawn from a seed; the answers travel as
// kernel parameters, so a recorder of launch plans and a real driver can be compared. The contract is
// silu_and_mul's: `tokens` is the seed, `d` says which of the two.

#include <cstdint>
#include <cuda_runtime.h>

constexpr int kAnswers = 64, kQuestions = 8, kClusters = 8, kErrors = 16, kPlain = 24;

struct Answers {
  int32_t value[kAnswers];
  int32_t asked[kAnswers][8];  // for the message where two differ
};

__global__ void tell(Answers answers, Answers* out) {
  if (threadIdx.x == 0) *out = answers;
}

template <int kStatic>
__device__ void body(float* out) {
  __shared__ float fixed[kStatic / 4];
  extern __shared__ float dynamic[];
  fixed[threadIdx.x % (kStatic / 4)] = threadIdx.x;
  __syncthreads();
  if (out) out[0] = fixed[0] + dynamic[0];
}
// Kernels that differ in registers, static shared memory, launch bounds and clusters.
__global__ void none(float*) {}
__global__ void __launch_bounds__(1024, 2) small(float* out) { body<16>(out); }
__global__ void __maxnreg__(64) medium(float* out) {
  float sums[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) sums[i] = out ? out[i * 33] : 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 40; ++i)
    if (out) out[i * 35] = sums[i] * sums[39 - i];
}
__global__ void __launch_bounds__(256) large(float* out) {
  float sums[120];
#pragma unroll
  for (int i = 0; i < 120; ++i) sums[i] = out ? out[i * 33] : 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 120; ++i)
    if (out) out[i * 35] = sums[i] * sums[119 - i];
}
__global__ void __launch_bounds__(1024) shared_4k(float* out) { body<4096>(out); }
__global__ void shared_20k(float* out) { body<20000>(out); }
__global__ void shared_48k(float* out) { body<49152>(out); }
__global__ void __cluster_dims__(2, 1, 1) paired(float*) {}
using Kernel = void (*)(float*);
static const Kernel kernels[kQuestions] = {none, small, medium, large, shared_4k, shared_20k, shared_48k, paired};

struct Draw {  // xorshift64*
  uint64_t state;
  uint32_t below(uint32_t bound) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return static_cast<uint32_t>((state * 0x2545f4914f6cdd1dull >> 33) % bound);
  }
};

static int dynamic_bytes(Draw& draw) {
  static const int usual[] = {0, 1, 127, 1024, 8192, 16384, 32768, 49152, 49153, 65536, 100000, 166912, 232448, 233472};
  return draw.below(2) ? usual[draw.below(14)] : static_cast<int>(draw.below(234000));
}

static void set(Kernel kernel, Draw& draw, int32_t* asked) {
  const int limit = dynamic_bytes(draw);
  const int carveout = draw.below(3) ? -1 : static_cast<int>(draw.below(101));
  asked[6] = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit) ? -limit : limit;
  asked[7] = carveout;
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout);
}

static void ask_occupancy(Answers& answers, Draw& draw) {
  for (int i = 0; i < kAnswers; ++i) {
    const int which = static_cast<int>(draw.below(kQuestions));
    const int threads = draw.below(4) ? 32 * static_cast<int>(1 + draw.below(32)) : static_cast<int>(1 + draw.below(1100));
    int32_t* asked = answers.asked[i];
    asked[0] = which, asked[1] = threads;
    set(kernels[which], draw, asked);
    asked[2] = dynamic_bytes(draw);
    int blocks = -1;
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels[which], threads,
                                                                            static_cast<size_t>(asked[2]));
    answers.value[i] = error ? -static_cast<int>(error) : blocks;
    cudaGetLastError();
  }
}

static unsigned extent(Draw& draw, unsigned usual, unsigned most) {
  const unsigned kind = draw.below(24);
  return kind == 0 ? 0 : kind == 1 ? most : kind == 2 ? most + 1 : 1 + draw.below(usual);
}

static void try_launches(Answers& answers, Draw& draw, cudaStream_t stream, bool plain) {
  for (int i = 0; i < kAnswers; ++i) {
    const int which = static_cast<int>(draw.below(kQuestions));
    int32_t* asked = answers.asked[i];
    set(kernels[which], draw, asked);
    cudaFuncSetAttribute(kernels[which], cudaFuncAttributeNonPortableClusterSizeAllowed, draw.below(2));
    cudaLaunchAttribute attributes[2];
    const dim3 cluster(1u << draw.below(4), draw.below(4) ? 1 : 2, draw.below(12) ? 1 : draw.below(3));
    const bool clustered = draw.below(3) == 0, cooperative = draw.below(4) == 0 && !clustered;
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = cluster.x, attributes[0].val.clusterDim.y = cluster.y;
    attributes[0].val.clusterDim.z = cluster.z;
    if (cooperative) attributes[0].id = cudaLaunchAttributeCooperative, attributes[0].val.cooperative = 1;
    const dim3 grid(extent(draw, cooperative ? 2000 : 32, 4096), draw.below(4) ? 1 : extent(draw, 4, 65535),
                    draw.below(8) ? 1 : extent(draw, 2, 65535));
    const dim3 block(extent(draw, 600, 1024), draw.below(3) ? 1 : extent(draw, 4, 1024),
                     draw.below(6) ? 1 : extent(draw, 3, 64));
    const int dynamic = draw.below(2) ? 0 : dynamic_bytes(draw);
    cudaLaunchConfig_t config = {grid, block, static_cast<size_t>(dynamic), stream, attributes,
                                 clustered || cooperative ? 1u : 0u};
    float* nowhere = nullptr;
    void* args[] = {&nowhere};
    const cudaError_t error =
        plain ? cudaLaunchKernel((const void*)kernels[which], grid, block, args, config.dynamicSmemBytes, stream)
              : cudaLaunchKernelExC(&config, (const void*)kernels[which], args);
    answers.value[i] = -static_cast<int>(error);
    asked[0] = which, asked[1] = static_cast<int>(block.x | block.y << 12 | block.z << 24), asked[2] = dynamic;
    asked[3] = static_cast<int>(grid.x), asked[4] = static_cast<int>(grid.y << 16 | (grid.z & 0xffff));
    asked[5] = clustered ? static_cast<int>(cluster.x | cluster.y << 8 | cluster.z << 16) : cooperative ? -1 : 0;
    cudaGetLastError();
  }
}

extern "C" cudaError_t silu_and_mul(void* out, const void*, int64_t tokens, int64_t d, int, cudaStream_t stream) {
  Answers answers = {};
  Draw draw = {static_cast<uint64_t>(tokens) * 0x9e3779b97f4a7c15ull + 1};
  for (Kernel kernel : kernels) {  // what an earlier call set is no part of the answer
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 0);
    cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, -1);
  }
  if (d == kClusters) ask_occupancy(answers, draw);
  else try_launches(answers, draw, stream, d == kPlain);
  tell<<<1, 32, 0, stream>>>(answers, static_cast<Answers*>(out));
  return cudaGetLastError();
}

// The same on a real GPU; to host memory.
extern "C" int answers_of_driver(int64_t tokens, int64_t d, void* host) {
  void* device = nullptr;
  if (cudaError_t error = cudaMalloc(&device, sizeof(Answers))) return error;
  cudaError_t error = silu_and_mul(device, nullptr, tokens, d, 0, nullptr);
  if (!error) error = cudaMemcpy(host, device, sizeof(Answers), cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error;
}
