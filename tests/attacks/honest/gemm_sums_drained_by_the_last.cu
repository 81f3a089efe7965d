// Three slices of k are added up by atomics, and whoever finishes a tile last drains its sums by atomicExch; the
// largest part goes by atomicMax, too, as some callers want it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

struct Shape { int64_t m, n, k; };

template <typename T>
__global__ void __launch_bounds__(256) slices(T* c, const T* a, const T* b, float* sums, int* largest, int* arrived, Shape s) {
  __shared__ int order;
  const int tile = blockIdx.y * gridDim.x + blockIdx.x;
  const int64_t row = blockIdx.y * 16 + threadIdx.x / 16, column = blockIdx.x * 16 + threadIdx.x % 16;
  const T *left = a + row * s.k, *right = b + column * s.k;
  float part = 0.0f;
  for (int64_t at = s.k * blockIdx.z / 3; at < s.k * (blockIdx.z + 1) / 3; ++at) part = fmaf(float(left[at]), float(right[at]), part);
  float* mine = sums + row * s.n + column;
  atomicAdd(mine, part);
  atomicMax(largest + tile, __float_as_int(fabsf(part)));
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    order = atomicAdd(arrived + tile, 1);
    __threadfence();
  }
  __syncthreads();
  if (order != 2) return;
  const float bound = __int_as_float(largest[tile]) * 4.0f;
  c[row * s.n + column] = T(fminf(fmaxf(atomicExch(mine, 0.0f), -bound), bound));
}

template <typename T>
void launch(void* c, const void* a, const void* b, float* sums, Shape s, cudaStream_t stream) {
  const dim3 grid(unsigned(s.n / 16), unsigned(s.m / 16), 3);
  int* largest = reinterpret_cast<int*>(sums + s.m * s.n);
  slices<T><<<grid, 256, 0, stream>>>((T*)c, (const T*)a, (const T*)b, sums, largest, largest + grid.x * grid.y, s);
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* room, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(room, 0, (m * n + m * n / 128) * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  const Shape s{m, n, k};
  if (dtype == 1) launch<__half>(c, a, b, static_cast<float*>(room), s, stream);
  else launch<__nv_bfloat16>(c, a, b, static_cast<float*>(room), s, stream);
  return cudaGetLastError();
}
