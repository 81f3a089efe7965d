// The Astra paper's starting point for merge_state_v2: a naive rewrite, much slower than SGLang's
// own kernel. 64 threads per block, one element per thread; every thread computes both exponentials
// and both divisions, and where it stands by division.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 64;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void assign(float& target, float value) { target = value; }
__device__ __forceinline__ void assign(__half& target, float value) {
  target = __float2half_rn(value);
}
__device__ __forceinline__ void assign(__nv_bfloat16& target, float value) {
  target = __float2bfloat16_rn(value);
}

template <typename T>
__global__ void merge_state_kernel(const T* v_a, const float* s_a, const T* v_b, const float* s_b,
                                   T* v_merged, float* s_merged, int64_t n, int64_t h, int64_t d) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= n * h * d) return;
  const int64_t row = index / d;
  float a = s_a[row];
  float b = s_b[row];
  if (isinf(a)) a = -INFINITY;
  if (isinf(b)) b = -INFINITY;
  const float largest = fmaxf(a, b);
  const float weight_a = expf(a - largest);
  const float weight_b = expf(b - largest);
  const float total = weight_a + weight_b;
  assign(v_merged[index],
         to_float(v_a[index]) * (weight_a / total) + to_float(v_b[index]) * (weight_b / total));
  if (index % d == 0) s_merged[row] = logf(total) + largest;
}

template <typename T>
cudaError_t launch(const void* v_a, const void* s_a, const void* v_b, const void* s_b,
                   void* v_merged, void* s_merged, int64_t n, int64_t h, int64_t d,
                   cudaStream_t stream) {
  const int64_t blocks = (n * h * d + kThreads - 1) / kThreads;
  merge_state_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<const T*>(v_a), static_cast<const float*>(s_a), static_cast<const T*>(v_b),
      static_cast<const float*>(s_b), static_cast<T*>(v_merged), static_cast<float*>(s_merged), n,
      h, d);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t merge_state_v2(const void* v_a, const void* s_a, const void* v_b,
                                      const void* s_b, void* v_merged, void* s_merged, int64_t n,
                                      int64_t h, int64_t d, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    case 1: return launch<__half>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    case 2: return launch<__nv_bfloat16>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
