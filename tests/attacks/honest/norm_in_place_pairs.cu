// Two elements at a time where the row allows it.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__device__ float all_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

__device__ float2 wide(const __half2& v) { return __half22float2(v); }
__device__ float2 wide(const float2& v) { return v; }
__device__ void narrow(__half2& to, float a, float b) { to = __floats2half2_rn(a, b); }
__device__ void narrow(float2& to, float a, float b) { to = make_float2(a, b); }

template <typename T> struct Pair;
template <> struct Pair<float> { using type = float2; };
template <> struct Pair<__half> { using type = __half2; };

template <typename T>
__global__ void norm(T* x, float* norms, int64_t n, float eps) {
  T* row = x + blockIdx.x * n;
  auto* pairs = reinterpret_cast<typename Pair<T>::type*>(row);
  const bool even = reinterpret_cast<uintptr_t>(row) % (2 * sizeof(T)) == 0;
  const int64_t count = even ? n / 2 : 0;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += 32) {
    const float2 v = wide(pairs[i]);
    sum += v.x * v.x + v.y * v.y;
  }
  for (int64_t i = 2 * count + threadIdx.x; i < n; i += 32) sum += float(row[i]) * float(row[i]);
  const float length = sqrtf(all_sum(sum) + eps);
  for (int64_t i = threadIdx.x; i < count; i += 32) {
    const float2 v = wide(pairs[i]);
    narrow(pairs[i], v.x / length, v.y / length);
  }
  for (int64_t i = 2 * count + threadIdx.x; i < n; i += 32) row[i] = T(float(row[i]) / length);
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    norm<<<unsigned(rows), 32, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    norm<<<unsigned(rows), 32, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
