// SGLang's silu_and_mul, then its group quantisation to fp8 (e4m3): the two kernels in sequence, as its
// compiled library of late 2025 launches them (tasks silu_and_mul and per_token_group_quant_fp8).
// The first rounds its results to T and leaves them in the caller's workspace, from where the second
// reads them.
// First: one block a token, at most 1024 threads, vectors of 16 bytes, and a scalar loop that does the
// end of the row again where the block's span does not divide it. Second: sixteen threads a group of 128
// elements, 16 bytes each, which they read twice and whose codes they store one by one; 16, 8, 4, 2 or 1
// groups a block, the most that divides their number.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

using T = __nv_bfloat16;

constexpr int kVector = 16 / sizeof(T);
constexpr int kMaxThreads = 1024;
constexpr int kGroup = 128;
constexpr int kGroupThreads = 16;
constexpr int kMostGroups = 16;
constexpr float kLargest = 448.0f;
constexpr float kLeastMaximum = 1e-10f;

__device__ __forceinline__ float to_float(T value) { return __bfloat162float(value); }
__device__ __forceinline__ T from_float(float value) { return __float2bfloat16_rn(value); }

struct alignas(16) Vector {
  T item[kVector];
};

__device__ __forceinline__ Vector load(const T* address) {
  const uint4 bits = *reinterpret_cast<const uint4*>(address);
  return *reinterpret_cast<const Vector*>(&bits);
}

__device__ __forceinline__ float silu(float value) { return value / (1.0f + expf(-value)); }

__global__ void silu_and_mul_kernel(T* __restrict__ out, const T* __restrict__ input, int d) {
  const int64_t token = blockIdx.x;
  const T* gate = input + token * 2 * d;
  const T* up = gate + d;
  T* row = out + token * d;
  const int thread = threadIdx.x;
  const int threads = blockDim.x;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

#pragma unroll 1
  for (int index = thread; index < d / kVector; index += threads) {
    const Vector x = load(gate + index * kVector);
    const Vector y = load(up + index * kVector);
    Vector result;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      result.item[i] = from_float(silu(to_float(x.item[i])) * to_float(y.item[i]));
    }
    *reinterpret_cast<uint4*>(row + index * kVector) = *reinterpret_cast<const uint4*>(&result);
  }

  const int rest = d % (threads * kVector);
  const int start = d - rest;
#pragma unroll 1
  for (int index = thread; index < rest; index += threads) {
    const float x = to_float(gate[start + index]);
    const float y = to_float(up[start + index]);
    row[start + index] = from_float(silu(x) * y);
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Of the sixteen lanes that hold a group.
__device__ __forceinline__ float group_largest(float value) {
  const unsigned lanes = 0xffffu << (threadIdx.x % 32 / kGroupThreads * kGroupThreads);
#pragma unroll
  for (int apart = kGroupThreads / 2; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(lanes, value, apart));
  }
  return value;
}

__global__ void group_quant_kernel(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                                   float* __restrict__ output_s, int size, int of_block,
                                   int64_t row_groups, int64_t token_stride, int64_t group_stride) {
  const int thread = threadIdx.x % kGroupThreads, vectors = size / kVector;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * of_block + threadIdx.x / kGroupThreads;
  const T* from = input + group * size;
  __nv_fp8_e4m3* to = output_q + group * size;
  float largest = kLeastMaximum;
  for (int index = thread; index < vectors; index += kGroupThreads) {
    const Vector x = load(from + index * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  }
  largest = group_largest(largest);
  const float scale = largest * (1.0f / kLargest);
  if (thread == 0) {
    const int64_t token = group / row_groups;
    output_s[token * token_stride + group % row_groups * group_stride] = scale;
  }
  for (int index = thread; index < vectors; index += kGroupThreads) {
    const Vector again = load(from + index * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float value = to_float(again.item[i]) / scale;
      to[index * kVector + i] = __nv_fp8_e4m3(fminf(fmaxf(value, -kLargest), kLargest));
    }
  }
}

cudaError_t launch_silu(T* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int vectors = static_cast<int>(d) / kVector;
  const int threads = vectors < kMaxThreads ? vectors : kMaxThreads;
  silu_and_mul_kernel<<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
      out, static_cast<const T*>(input), static_cast<int>(d));
  return cudaGetLastError();
}

cudaError_t launch_quant(const T* input, void* output_q, void* output_s, int64_t tokens, int64_t d,
                         bool column_major, cudaStream_t stream) {
  const int64_t row_groups = d / kGroup;
  const int64_t groups = tokens * row_groups;
  // Columns of scales start at multiples of 16 bytes.
  const int64_t column = (tokens + 3) / 4 * 4;
  int of_block = 1;
  while (of_block < kMostGroups && groups % (2 * of_block) == 0) of_block *= 2;
  group_quant_kernel<<<static_cast<unsigned>(groups / of_block), of_block * kGroupThreads, 0, stream>>>(
      input, static_cast<__nv_fp8_e4m3*>(output_q), static_cast<float*>(output_s), kGroup, of_block,
      row_groups, column_major ? 1 : row_groups, column_major ? column : 1);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q,
                                                    void* output_s, void* activated, int64_t tokens,
                                                    int64_t d, int64_t column_major, int dtype,
                                                    cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  T* between = static_cast<T*>(activated);
  const cudaError_t error = launch_silu(between, input, tokens, d, stream);
  if (error != cudaSuccess) return error;
  return launch_quant(between, output_q, output_s, tokens, d, column_major != 0, stream);
}
