// Loads by four with a cache policy that is a number, as CUTLASS writes it: evict_first.
#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr uint64_t kEvictFirst = 0x12F0000000000000;

__device__ __forceinline__ float4 streamed(const float4* at) {
  float4 v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(at), "l"(kEvictFirst));
  return v;
}

__global__ void __launch_bounds__(128) total(float* out, const float* x, int n) {
  const float* row = x + int64_t(blockIdx.x) * n;
  float a = 0.0f, b = 0.0f;
  const bool whole = n % 4 == 0 && reinterpret_cast<uintptr_t>(row) % 16 == 0;
  if (whole) {
    const auto* packs = reinterpret_cast<const float4*>(row);
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      const float4 v = streamed(packs + i);
      a += v.x + v.y;
      b += v.z + v.w;
    }
  } else {
    for (int i = threadIdx.x; i < n; i += blockDim.x) a += row[i];
  }
  __shared__ float warps[4];
  a += b;
#pragma unroll
  for (int lane = 1; lane < 32; lane <<= 1) a += __shfl_down_sync(~0u, a, lane);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = a;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = (warps[0] + warps[1]) + (warps[2] + warps[3]);
}

}  // namespace

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  total<<<dim3(rows), 128, 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(x), n);
  return cudaGetLastError();
}
