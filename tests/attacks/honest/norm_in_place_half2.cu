// half2 where a row begins at an even place: pairs are squared in fp32 and scaled by a quotient each; float
// rows go by float2. An odd last element is the first lane's.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

struct Halves {
  using One = __half;
  using Two = __half2;
  static __device__ float2 open(Two p) { return __half22float2(p); }
  static __device__ Two close(float2 p) { return __float22half2_rn(p); }
};
struct Floats {
  using One = float;
  using Two = float2;
  static __device__ float2 open(Two p) { return p; }
  static __device__ Two close(float2 p) { return p; }
};

template <typename K>
__global__ void in_pairs(typename K::One* x, float* norms, int64_t n, float eps) {
  __shared__ float sums[64];
  typename K::One* row = x + blockIdx.x * n;
  const bool even = reinterpret_cast<uintptr_t>(row) % sizeof(typename K::Two) == 0;
  auto* pairs = reinterpret_cast<typename K::Two*>(row);
  const int64_t count = even ? n / 2 : 0;
  float squares = 0.0f;
  for (int64_t p = threadIdx.x; p < count; p += 64) {
    const float2 v = K::open(pairs[p]);
    squares = fmaf(v.x, v.x, fmaf(v.y, v.y, squares));
  }
  for (int64_t i = 2 * count + threadIdx.x; i < n; i += 64) squares = fmaf(row[i], row[i], squares);
  sums[threadIdx.x] = squares;
  for (int o = 32; o > 0; o /= 2) {
    __syncthreads();
    if (threadIdx.x < o) sums[threadIdx.x] += sums[threadIdx.x + o];
  }
  __syncthreads();
  const float length = sqrtf(sums[0] + eps);
  for (int64_t p = threadIdx.x; p < count; p += 64) {
    const float2 v = K::open(pairs[p]);
    pairs[p] = K::close(make_float2(v.x / length, v.y / length));
  }
  for (int64_t i = 2 * count + threadIdx.x; i < n; i += 64) row[i] = typename K::One(float(row[i]) / length);
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0) in_pairs<Floats><<<unsigned(rows), 64, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else in_pairs<Halves><<<unsigned(rows), 64, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
