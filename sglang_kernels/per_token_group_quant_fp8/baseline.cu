// SGLang's group quantisation to fp8 (e4m3), first version, as its compiled library of September 2025
// launches it. Eight threads take a group of 128 elements, 32 bytes each by two loads of 16; three
// shuffles find the largest magnitude; each stores 16 codes as one vector, the first the scale. A block
// holds 16, 8, 4, 2 or 1 groups, the most that divides their number: of an odd number eight threads.
// The original's shuffles name lanes 0 to 15 only, of lanes above as well, and its offsets are 32 bits:
// here a shuffle names the group's own eight lanes, and offsets are 64 bits.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kGroup = 128;
constexpr int kThreads = 8;
constexpr int kItems = kGroup / kThreads;
constexpr float kLargest = 448.0f;
constexpr float kLeastMaximum = 1e-10f;

__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
struct alignas(16) Items {
  T item[kItems];
};

struct alignas(16) Codes {
  __nv_fp8_e4m3 item[kItems];
};

__device__ __forceinline__ uint4 load_once(const void* address) {
  uint4 bits;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(__cvta_generic_to_global(address)));
  return bits;
}

template <typename T>
__device__ __forceinline__ Items<T> load(const T* address) {
  Items<T> result;
  reinterpret_cast<uint4*>(&result)[0] = load_once(address);
  reinterpret_cast<uint4*>(&result)[1] = load_once(address + kItems / 2);
  return result;
}

// Of the eight lanes that hold a group.
__device__ __forceinline__ float group_largest(float value) {
  const unsigned lanes = 0xffu << (threadIdx.x % 32 / kThreads * kThreads);
#pragma unroll
  for (int apart = kThreads / 2; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(lanes, value, apart));
  }
  return value;
}

template <typename T, int kGroups>
__global__ void group_quant_kernel(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                                   float* __restrict__ output_s, int64_t row_groups,
                                   int64_t token_stride, int64_t group_stride) {
  const int thread = threadIdx.x % kThreads;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kGroups + threadIdx.x / kThreads;
  const int64_t first = group * kGroup + thread * kItems;
  const Items<T> x = load(input + first);
  float largest = kLeastMaximum;
#pragma unroll
  for (int i = 0; i < kItems; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  largest = group_largest(largest);
  if (thread == 0) {
    const int64_t token = group / row_groups;
    output_s[token * token_stride + group % row_groups * group_stride] =
        largest * (1.0f / kLargest);
  }
  const float times = kLargest / largest;
  Codes codes;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    codes.item[i] = __nv_fp8_e4m3(to_float(x.item[i]) * times);
  }
  *reinterpret_cast<uint4*>(output_q + first) = *reinterpret_cast<const uint4*>(&codes);
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   bool column_major, cudaStream_t stream) {
  const int64_t row_groups = hidden / kGroup;
  const int64_t groups = tokens * row_groups;
  // Columns of scales start at multiples of 16 bytes.
  const int64_t column = (tokens + 3) / 4 * 4;
  const auto with = [&](auto kernel, int of_block) {
    kernel<<<static_cast<unsigned>(groups / of_block), of_block * kThreads, 0, stream>>>(
        static_cast<const T*>(input), static_cast<__nv_fp8_e4m3*>(output_q),
        static_cast<float*>(output_s), row_groups, column_major ? 1 : row_groups,
        column_major ? column : 1);
    return cudaGetLastError();
  };
  if (groups % 16 == 0) return with(group_quant_kernel<T, 16>, 16);
  if (groups % 8 == 0) return with(group_quant_kernel<T, 8>, 8);
  if (groups % 4 == 0) return with(group_quant_kernel<T, 4>, 4);
  if (groups % 2 == 0) return with(group_quant_kernel<T, 2>, 2);
  return with(group_quant_kernel<T, 1>, 1);
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
