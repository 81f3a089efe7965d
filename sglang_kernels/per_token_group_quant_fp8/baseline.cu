// SGLang's group quantisation to fp8 (e4m3), first version, as its compiled library launches it from
// September to December 2025. Sixteen threads take a group, 16 bytes each; four shuffles find the
// largest magnitude, and the first stores the scale. Then each reads its elements again and stores their
// codes one by one. A block holds 16, 8, 4, 2 or 1 groups, the most that divides their number: of an
// odd number sixteen threads. The size of a group is an argument of the kernel, as is that of a block.
// The original's offsets are 32 bits, here they are 64.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kGroup = 128;
constexpr int kThreads = 16;
constexpr int kVector = 8;
constexpr int kMostGroups = 16;
constexpr float kLargest = 448.0f;
constexpr float kLeastMaximum = 1e-10f;

__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
struct alignas(16) Vector {
  T item[kVector];
};

template <typename T>
__device__ __forceinline__ Vector<T> load(const T* address) {
  const uint4 bits = *reinterpret_cast<const uint4*>(address);
  return *reinterpret_cast<const Vector<T>*>(&bits);
}

// Of the sixteen lanes that hold a group.
__device__ __forceinline__ float group_largest(float value) {
  const unsigned lanes = 0xffffu << (threadIdx.x % 32 / kThreads * kThreads);
#pragma unroll
  for (int apart = kThreads / 2; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(lanes, value, apart));
  }
  return value;
}

template <typename T>
__global__ void group_quant_kernel(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                                   float* __restrict__ output_s, int size, int of_block,
                                   int64_t row_groups, int64_t token_stride, int64_t group_stride) {
  const int thread = threadIdx.x % kThreads, vectors = size / kVector;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * of_block + threadIdx.x / kThreads;
  const T* from = input + group * size;
  __nv_fp8_e4m3* to = output_q + group * size;
  float largest = kLeastMaximum;
  for (int index = thread; index < vectors; index += kThreads) {
    const Vector<T> x = load(from + index * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  }
  largest = group_largest(largest);
  const float scale = largest * (1.0f / kLargest);
  if (thread == 0) {
    const int64_t token = group / row_groups;
    output_s[token * token_stride + group % row_groups * group_stride] = scale;
  }
  for (int index = thread; index < vectors; index += kThreads) {
    const Vector<T> again = load(from + index * kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float value = to_float(again.item[i]) / scale;
      to[index * kVector + i] = __nv_fp8_e4m3(fminf(fmaxf(value, -kLargest), kLargest));
    }
  }
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   bool column_major, cudaStream_t stream) {
  const int64_t row_groups = hidden / kGroup;
  const int64_t groups = tokens * row_groups;
  // Columns of scales start at multiples of 16 bytes.
  const int64_t column = (tokens + 3) / 4 * 4;
  int of_block = 1;
  while (of_block < kMostGroups && groups % (2 * of_block) == 0) of_block *= 2;
  group_quant_kernel<T><<<static_cast<unsigned>(groups / of_block), of_block * kThreads, 0, stream>>>(
      static_cast<const T*>(input), static_cast<__nv_fp8_e4m3*>(output_q),
      static_cast<float*>(output_s), kGroup, of_block, row_groups, column_major ? 1 : row_groups,
      column_major ? column : 1);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s,
                                                 int64_t tokens, int64_t hidden,
                                                 int64_t column_major, int dtype,
                                                 cudaStream_t stream) {
  const bool columns = column_major != 0;
  switch (dtype) {
    case 1: return launch<__half>(input, output_q, output_s, tokens, hidden, columns, stream);
    case 2: return launch<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, columns, stream);
    default: return cudaErrorInvalidValue;
  }
}
