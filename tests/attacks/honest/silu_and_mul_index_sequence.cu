// Unrolled by a fold over an index sequence; the dtype's traits and the number of elements are template arguments.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>
#include <type_traits>
#include <utility>

template <int I>
using At = std::integral_constant<int, I>;

template <typename F, int... I>
__device__ __forceinline__ void each(F&& f, std::integer_sequence<int, I...>) {
  (f(At<I>{}), ...);
}

template <typename T, int ITEMS>
__global__ void folded(T* __restrict__ out, const T* __restrict__ input, int64_t tokens, int64_t d) {
  for (int64_t token = blockIdx.y; token < tokens; token += gridDim.y) {
    const int64_t first = int64_t(blockIdx.x) * blockDim.x * ITEMS + threadIdx.x;
    each([&](auto item) {
      const int64_t i = first + decltype(item)::value * int64_t(blockDim.x);
      if (i < d) {
        const float gate = float(input[token * 2 * d + i]), up = float(input[(token * 2 + 1) * d + i]);
        out[token * d + i] = T(gate / (1.0f + __expf(-gate)) * up);
      }
    }, std::make_integer_sequence<int, ITEMS>{});
  }
}

template <typename T>
static void choose(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const unsigned y = unsigned(tokens < 32768 ? tokens : 32768);
  if (d >= 2048) folded<T, 8><<<dim3(unsigned((d + 2047) / 2048), y), 256, 0, stream>>>((T*)out, (const T*)input, tokens, d);
  else folded<T, 2><<<dim3(unsigned((d + 127) / 128), y), 64, 0, stream>>>((T*)out, (const T*)input, tokens, d);
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  constexpr void (*kinds[])(void*, const void*, int64_t, int64_t, cudaStream_t) = {choose<float>, choose<__half>, choose<__nv_bfloat16>};
  if (dtype < 0 || dtype > 2) return cudaErrorInvalidValue;
  kinds[dtype](out, input, tokens, d, stream);
  return cudaGetLastError();
}
