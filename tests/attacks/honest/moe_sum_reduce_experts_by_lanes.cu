// Eight lanes share an element's experts and add up by a butterfly: another order of summation.
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

template <class T>
__global__ void by_lanes(const T* __restrict__ x, T* __restrict__ y, int64_t elements, int64_t hidden, int64_t experts, float factor) {
  const int part = threadIdx.x % 8;
  const int64_t first = blockIdx.x * int64_t(blockDim.x / 8) + threadIdx.x / 8;
  const int64_t element = first < elements ? first : elements - 1;
  const int64_t token = element / hidden, column = element % hidden;
  float acc = 0.0f;
  for (int64_t e = part; e < experts; e += 8) acc += float(x[(token * experts + e) * hidden + column]);
  acc += __shfl_xor_sync(0xffffffffu, acc, 4);
  acc += __shfl_xor_sync(0xffffffffu, acc, 2);
  acc += __shfl_xor_sync(0xffffffffu, acc, 1);
  if (part == 0 && first < elements) y[element] = T(acc * factor);
}
extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, int dtype, cudaStream_t stream) {
  const int64_t elements = tokens * hidden;
  const auto blocks = static_cast<unsigned>((elements + 31) / 32);
  switch (dtype) {
    case 0: by_lanes<float><<<blocks, 256, 0, stream>>>((const float*)input, (float*)output, elements, hidden, experts, scale); break;
    case 1: by_lanes<__half><<<blocks, 256, 0, stream>>>((const __half*)input, (__half*)output, elements, hidden, experts, scale); break;
    case 2: by_lanes<__nv_bfloat16><<<blocks, 256, 0, stream>>>((const __nv_bfloat16*)input, (__nv_bfloat16*)output, elements, hidden, experts, scale); break;
  }
  return cudaGetLastError();
}
