// A block a token whatever their number; up to 16 vectors a thread stay in registers between the two
// passes, rows that are longer are read again. The scale is a product, the code a division.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kHeld = 16;
constexpr int kVector = 4;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
struct alignas(kVector * sizeof(T)) Vector {
  T item[kVector];
};

template <typename T>
__device__ __forceinline__ uint32_t coded(const Vector<T>& x, float divisor) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < kVector; i += 2) {
    float2 pair;
    pair.x = fmaxf(fminf(to_float(x.item[i]) / divisor, 448.0f), -448.0f);
    pair.y = fmaxf(fminf(to_float(x.item[i + 1]) / divisor, 448.0f), -448.0f);
    word |= static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3))
            << (8 * i);
  }
  return word;
}

template <typename T>
__global__ void in_registers(const T* __restrict__ input, uint32_t* __restrict__ output_q,
                             float* __restrict__ output_s, int vectors) {
  __shared__ float of_warps[kThreads / 32];
  const int64_t token = blockIdx.x;
  const Vector<T>* row = reinterpret_cast<const Vector<T>*>(input) + token * vectors;
  Vector<T> held[kHeld];
  float largest = 0.0f;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int index = k * kThreads + threadIdx.x;
    if (index < vectors) {
      held[k] = row[index];
#pragma unroll
      for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, fabsf(to_float(held[k].item[i])));
    }
  }
  for (int index = kHeld * kThreads + threadIdx.x; index < vectors; index += kThreads) {
    const Vector<T> x = row[index];
    for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  }
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  largest = fmaxf(fmaxf(of_warps[0], of_warps[1]), fmaxf(of_warps[2], of_warps[3]));
  const float scale = largest * (1.0f / 448.0f);
  if (threadIdx.x == 0) output_s[token] = scale;
  const float divisor = scale == 0.0f ? INFINITY : scale;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int index = k * kThreads + threadIdx.x;
    if (index < vectors) output_q[token * vectors + index] = coded(held[k], divisor);
  }
  for (int index = kHeld * kThreads + threadIdx.x; index < vectors; index += kThreads) {
    output_q[token * vectors + index] = coded(row[index], divisor);
  }
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   cudaStream_t stream) {
  in_registers<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<const T*>(input), static_cast<uint32_t*>(output_q), static_cast<float*>(output_s),
      static_cast<int>(hidden / kVector));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s,
                                           int64_t tokens, int64_t hidden, int dtype,
                                           cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, output_q, output_s, tokens, hidden, stream);
    case 1: return launch<__half>(input, output_q, output_s, tokens, hidden, stream);
    case 2: return launch<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, stream);
    default: return cudaErrorInvalidValue;
  }
}
