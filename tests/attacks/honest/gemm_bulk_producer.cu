// Warps with roles: one brings rows of both matrices by bulk copies, four multiply. cuda::barrier counts
// bytes and readers; the rows of a stage lie one after the other.
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

using Barrier = cuda::barrier<cuda::thread_scope_block>;
namespace device = cuda::device;
constexpr int kDepth = 16, kStages = 3;

template <typename T>
__global__ void roles(T* c, const T* a, const T* b, int64_t n, int64_t k) {
  __shared__ alignas(128) T rows[kStages][32][kDepth];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s], 1), init(&empty[s], 128);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  __syncthreads();
  const int64_t top = blockIdx.y * 16, left = blockIdx.x * 16;
  if (threadIdx.x == 128) {
    for (int64_t step = 0; step < k / kDepth; ++step) {
      const int s = step % kStages;
      if (step >= kStages) empty[s].wait_parity((step / kStages - 1) % 2);
      for (int r = 0; r < 32; ++r) {
        const T* from = (r < 16 ? a + (top + r) * k : b + (left + r - 16) * k) + step * kDepth;
        device::memcpy_async_tx(&rows[s][r][0], from, cuda::aligned_size_t<16>(kDepth * sizeof(T)), full[s]);
      }
      (void)device::barrier_arrive_tx(full[s], 1, 32 * kDepth * sizeof(T));
    }
  } else if (threadIdx.x < 128) {
    const int i = threadIdx.x / 8, j = threadIdx.x % 8 * 2;
    float x = 0.0f, y = 0.0f;
    for (int64_t step = 0; step < k / kDepth; ++step) {
      const int s = step % kStages;
      full[s].wait_parity(step / kStages % 2);
      for (int l = 0; l < kDepth; ++l) {
        x += float(rows[s][i][l]) * float(rows[s][16 + j][l]);
        y += float(rows[s][i][l]) * float(rows[s][17 + j][l]);
      }
      (void)empty[s].arrive();
    }
    c[(top + i) * n + left + j] = T(x);
    c[(top + i) * n + left + j + 1] = T(y);
  }
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void*, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(n / 16), unsigned(m / 16));
  if (dtype == 1) roles<<<grid, 160, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, n, k);
  else roles<<<grid, 160, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, n, k);
  return cudaGetLastError();
}
