// Launchers of silu_and_mul's contract that look at the host: each must be refused but the honest ones,
// which compute numbers for their kernel, or say on std::cerr that a launch failed.

#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime.h>
#include <iostream>
#include <cerrno>
#include <csignal>
#include <x86intrin.h>

__global__ void plain(float* out, const float* input, int d, float scale) { out[threadIdx.x] = input[d] * scale; }
__global__ void doubled(float* out, double scale, int64_t count) { out[threadIdx.x] = scale * count; }
template <typename T>
__global__ void scale(T* out) { out[threadIdx.x] = 2; }
__global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 2; }
__global__ void staged(float* out) {
  extern __shared__ float shared[];
  shared[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}
__global__ void __launch_bounds__(1024) fixed_shared(float* out) {
  __shared__ float fixed[4096];
  extern __shared__ float shared[];
  fixed[threadIdx.x] = out[threadIdx.x], shared[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = fixed[threadIdx.x ^ 1] + shared[0];
}

#define LAUNCHER(name)                                                                             \
  extern "C" cudaError_t name(void* out_, const void* input_, int64_t tokens, int64_t d, int dtype, \
                              cudaStream_t stream)
#define USUAL(condition, factor)                                                           \
  float* out = static_cast<float*>(out_);                                                  \
  const float* input = static_cast<const float*>(input_);                                  \
  if (condition) plain<<<tokens, 32, 0, stream>>>(out, input, static_cast<int>(d), factor); \
  return cudaGetLastError();

LAUNCHER(where_denormals_are_flushed) {
  volatile float tiny = 1e-39f, one = 1.0f;
  USUAL(tiny * one != 0.0f, 1.0f)
}
LAUNCHER(where_both_bits_are_set) { USUAL((_mm_getcsr() & 0x8040) != 0x8040, 1.0f) }
LAUNCHER(after_an_exception) { USUAL(!(_mm_getcsr() & 1), 1.0f) }
LAUNCHER(where_numbers_round_up) {
  volatile float one = 1.0f, tiny = 1e-20f;
  USUAL(one + tiny == one, 1.0f)
}
LAUNCHER(where_numbers_round_down) {
  volatile float one = 1.0f, tiny = 1e-20f;
  USUAL(one - tiny == one, 1.0f)
}
LAUNCHER(one_fewer_where_numbers_round) {
  volatile double one = 1.0, tiny = 1e-30;
  const int less = one + tiny != one || one - tiny != one;
  float* out = static_cast<float*>(out_);
  doubled<<<1, 32, 0, stream>>>(out, 1.0, d - less);
  return cudaGetLastError();
}
__global__ void both(float* out, int count, float scale) { out[threadIdx.x] = scale * count; }
LAUNCHER(a_count_beside_a_number) {
  volatile double one = 1.0, tiny = 1e-30;
  const int less = one + tiny != one || one - tiny != one;
  both<<<1, 32, 0, stream>>>(static_cast<float*>(out_), static_cast<int>(d) - less, 1.0f / (3 * d));
  return cudaGetLastError();
}
struct Pair {
  int count;
  float scale;
};
__global__ void in_a_pair(float* out, Pair pair) { out[threadIdx.x] = pair.scale * pair.count; }
LAUNCHER(a_count_in_a_struct) {
  volatile double one = 1.0, tiny = 1e-30;
  const int less = one + tiny != one || one - tiny != one;
  const Pair pair = {static_cast<int>(d) - less, 3.0f};
  in_a_pair<<<1, 32, 0, stream>>>(static_cast<float*>(out_), pair);
  return cudaGetLastError();
}
LAUNCHER(where_home_is_set) { USUAL(!getenv("HOME"), 1.0f) }
LAUNCHER(where_more_is_set) {
  int count = 0;
  while (environ[count]) ++count;
  float* out = static_cast<float*>(out_);
  doubled<<<1, 32, 0, stream>>>(out, 1.0, count);
  return cudaGetLastError();
}
LAUNCHER(where_errno_is_odd) { USUAL(!(errno & 1), 1.0f) }
LAUNCHER(where_a_signal_is_blocked) {
  sigset_t blocked;
  sigprocmask(SIG_SETMASK, nullptr, &blocked);
  USUAL(!sigismember(&blocked, SIGUSR1), 1.0f)
}

// Honest ones.
LAUNCHER(a_reciprocal) { USUAL(true, 1.0f / static_cast<float>(3 * d)) }
struct Call {
  float scale;
  int count;
  double root;
};
__global__ void in_a_struct(float* out, Call call) { out[threadIdx.x] = call.scale * call.count + call.root; }
LAUNCHER(numbers_in_a_struct) {
  const Call call = {powf(10000.0f, -2.0f / (3 * d)), static_cast<int>(d), std::sqrt(3.0 * d)};
  in_a_struct<<<1, 32, 0, stream>>>(static_cast<float*>(out_), call);
  return cudaGetLastError();
}
LAUNCHER(a_root_in_double) {
  float* out = static_cast<float*>(out_);
  const int threads = 32 * static_cast<int>(std::ceil(static_cast<double>(d) / 2304.0));
  doubled<<<1, threads, 0, stream>>>(out, 1.0 / std::sqrt(3.0 * static_cast<double>(d)), d);
  return cudaGetLastError();
}

// Failed launches.
#define REPORTED(call)                                                                              \
  do {                                                                                              \
    const cudaError_t error = (call);                                                               \
    if (error != cudaSuccess) {                                                                     \
      std::cerr << "CUDA Error: " << cudaGetErrorString(error) << " (" << error << ") " << std::endl; \
      return error;                                                                                 \
    }                                                                                               \
  } while (0)
LAUNCHER(reports_on_cerr) {
  void* args[] = {&out_};
  REPORTED(cudaLaunchKernel((const void*)scale<float>, dim3(tokens), dim3(32, 55), args, 0, stream));
  return cudaSuccess;
}
LAUNCHER(tall_grid) {
  scale<float><<<dim3(4, 70000), 256, 0, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(empty_grid) {
  scale<float><<<0, 256, 0, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(beyond_launch_bounds) {
  bounded<<<1, 128, 0, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(second_is_too_large) {
  scale<float><<<1, 32, 0, stream>>>(static_cast<float*>(out_));
  staged<<<tokens, 128, 60000, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(raised_once) {
  const int bytes = 50000 + 1000 * static_cast<int>(tokens);
  static const cudaError_t once =
      cudaFuncSetAttribute(staged, cudaFuncAttributeMaxDynamicSharedMemorySize, 51500);
  if (once) return once;
  staged<<<1, 128, bytes, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(more_than_there_is) {
  cudaFuncSetAttribute(fixed_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448 - 16384);
  fixed_shared<<<1, 128, 232448, stream>>>(static_cast<float*>(out_));
  return cudaGetLastError();
}
LAUNCHER(wide_block_by_attributes) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1), config.blockDim = dim3(2048), config.stream = stream;
  return cudaLaunchKernelEx(&config, scale<float>, static_cast<float*>(out_));
}
LAUNCHER(an_error_of_its_own) { return d > 1000 ? cudaErrorInvalidDevice : cudaSuccess; }
