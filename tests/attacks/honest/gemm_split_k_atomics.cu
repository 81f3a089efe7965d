// Split-K by vector atomics: the workspace is cleared on the stream, three blocks add to it, a last
// kernel rounds.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void add_share(float* total, const T* a, const T* b, int n, int k) {
  const int pair = (blockIdx.x * blockDim.x + threadIdx.x) * 2, row = pair / n, column = pair % n;
  const T *x = a + int64_t(row) * k, *y = b + int64_t(column) * k, *z = y + k;
  float2 sum = {0.0f, 0.0f};
  for (int l = blockIdx.y * 16; l < k; l += gridDim.y * 16)
    for (int s = 0; s < 16; ++s) {
      const float u = x[l + s];
      sum.x = __fmaf_rn(u, float(y[l + s]), sum.x);
      sum.y = __fmaf_rn(u, float(z[l + s]), sum.y);
    }
  atomicAdd(total + pair, sum.x);
  atomicAdd(total + pair + 1, sum.y);
}

template <typename T>
__global__ void round_once(T* c, const float* total) {
  const int e = blockIdx.x * 256 + threadIdx.x;
  c[e] = T(total[e]);
}

template <typename T>
static cudaError_t run(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n, int64_t k, cudaStream_t s) {
  if (const cudaError_t e = cudaMemsetAsync(parts, 0, m * n * sizeof(float), s); e != cudaSuccess) return e;
  add_share<T><<<dim3(unsigned(m * n / 256), k > 32 ? 3 : 1), 128, 0, s>>>((float*)parts, (const T*)a, (const T*)b, n, k);
  round_once<T><<<unsigned(m * n / 256), 256, 0, s>>>((T*)c, (const float*)parts);
  return cudaGetLastError();
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  return dtype == 1 ? run<__half>(c, a, b, parts, m, n, k, stream) : run<__nv_bfloat16>(c, a, b, parts, m, n, k, stream);
}
