// A thread sums a vector of 16 bytes over all experts; blocks of columns and tokens in one grid dimension.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void __launch_bounds__(128) sums(T* out, const T* in, int64_t vectors, int experts, int64_t per_row, float scale) {
  constexpr int kV = 16 / sizeof(T);
  const int64_t v = blockIdx.x * 128ll + threadIdx.x;
  if (v >= vectors) return;
  const int64_t token = v / per_row, at = v % per_row;
  const uint4* from = reinterpret_cast<const uint4*>(in) + token * experts * per_row + at;
  float total[kV] = {};
#pragma unroll 2
  for (int e = 0; e < experts; ++e) {
    const uint4 word = from[e * per_row];
    const T* items = reinterpret_cast<const T*>(&word);
#pragma unroll
    for (int i = 0; i < kV; ++i) total[i] += float(items[i]);
  }
  uint4 word;
#pragma unroll
  for (int i = 0; i < kV; ++i) reinterpret_cast<T*>(&word)[i] = T(total[i] * scale);
  reinterpret_cast<uint4*>(out)[v] = word;
}
extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, int dtype, cudaStream_t stream) {
  const int64_t per_row = hidden * (dtype ? 2 : 4) / 16, vectors = tokens * per_row;
  const unsigned blocks = unsigned((vectors + 127) / 128);
  if (dtype == 0) sums<<<blocks, 128, 0, stream>>>((float*)output, (const float*)input, vectors, int(experts), per_row, scale);
  if (dtype == 1) sums<<<blocks, 128, 0, stream>>>((__half*)output, (const __half*)input, vectors, int(experts), per_row, scale);
  if (dtype == 2) sums<<<blocks, 128, 0, stream>>>((__nv_bfloat16*)output, (const __nv_bfloat16*)input, vectors, int(experts), per_row, scale);
  return cudaGetLastError();
}
