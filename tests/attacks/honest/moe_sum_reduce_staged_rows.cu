// All experts' pieces of 64 columns come by cp.async of 8 bytes before the first sum.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ __launch_bounds__(64) void staged(const T* in, T* out, int experts, int64_t hidden, float scale) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* piece = reinterpret_cast<T*>(memory);
  constexpr int kWord = 8 / sizeof(T), kColumns = 64;
  const int64_t token = blockIdx.y, column = blockIdx.x * int64_t(kColumns);
  for (int w = threadIdx.x; w < experts * kColumns / kWord; w += 64) {
    const int e = w / (kColumns / kWord), c = w % (kColumns / kWord) * kWord;
    if (column + c < hidden) {
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(piece + e * kColumns + c));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(in + (token * experts + e) * hidden + column + c) : "memory");
    }
  }
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (column + threadIdx.x >= hidden) return;
  float sum = 0.0f;
  for (int e = 0; e < experts; ++e) sum += static_cast<float>(piece[e * kColumns + threadIdx.x]);
  out[token * hidden + column + threadIdx.x] = static_cast<T>(scale * sum);
}
template <typename T>
cudaError_t all_tokens(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, cudaStream_t stream) {
  for (int64_t first = 0; first < tokens; first += 65535) {
    const int64_t rows = tokens - first < 65535 ? tokens - first : 65535;
    staged<T><<<dim3(unsigned((hidden + 63) / 64), unsigned(rows)), 64, size_t(experts) * 64 * sizeof(T), stream>>>((const T*)input + first * experts * hidden, (T*)output + first * hidden, int(experts), hidden, scale);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}
extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, int dtype, cudaStream_t stream) {
  if (dtype == 0) return all_tokens<float>(input, output, tokens, experts, hidden, scale, stream);
  if (dtype == 1) return all_tokens<__half>(input, output, tokens, experts, hidden, scale, stream);
  return all_tokens<__nv_bfloat16>(input, output, tokens, experts, hidden, scale, stream);
}
