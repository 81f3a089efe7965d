// Two stages of cp.async feed wmma: while one piece is multiplied, the next is on its way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cstdint>
#include <cuda_runtime.h>
#include <mma.h>

namespace w = nvcuda::wmma;

template <typename T>
__global__ void staged(T* c, const T* a, const T* b, int64_t n, int64_t k) {
  __shared__ alignas(32) T piece[2][2][16][16];
  __shared__ alignas(32) float sums[16][16];
  const int lane = threadIdx.x, r = lane / 2, h = lane % 2 * 8;
  const T *pa = a + (blockIdx.y * 16 + r) * k + h, *pb = b + (blockIdx.x * 16 + r) * k + h;
  const auto fetch = [&](int64_t l, int stage) {
    __pipeline_memcpy_async(&piece[stage][0][r][h], pa + l, 16);
    __pipeline_memcpy_async(&piece[stage][1][r][h], pb + l, 16);
    __pipeline_commit();
  };
  w::fragment<w::accumulator, 16, 16, 16, float> sum;
  w::fill_fragment(sum, 0.0f);
  fetch(0, 0);
  for (int64_t l = 0; l < k; l += 16) {
    const int stage = l / 16 % 2;
    if (l + 16 < k) fetch(l + 16, 1 - stage);
    __pipeline_wait_prior(l + 16 < k ? 1 : 0);
    __syncwarp();
    w::fragment<w::matrix_a, 16, 16, 16, T, w::row_major> x;
    w::fragment<w::matrix_b, 16, 16, 16, T, w::col_major> y;
    w::load_matrix_sync(x, &piece[stage][0][0][0], 16);
    w::load_matrix_sync(y, &piece[stage][1][0][0], 16);
    w::mma_sync(sum, x, y, sum);
    __syncwarp();
  }
  w::store_matrix_sync(&sums[0][0], sum, 16, w::mem_row_major);
  __syncwarp();
  for (int i = 0; i < 8; ++i) c[(blockIdx.y * 16 + r) * n + blockIdx.x * 16 + h + i] = T(sums[r][h + i]);
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void*, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(n / 16), unsigned(m / 16));
  if (dtype == 1) staged<<<grid, 32, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, n, k);
  else staged<<<grid, 32, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, n, k);
  return cudaGetLastError();
}
