// A warp makes sixteen rows of eight columns in two halves of k; each half leaves shared memory by bulk copies of 32
// bytes, is waited for to the end, and whoever comes second to a strip adds the two.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

namespace {
constexpr int kHigh = 16, kWide = 8;

__device__ void leave(float* to, const float* row) {
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "n"(kWide * 4) : "memory");
}

template <typename T>
__global__ void __launch_bounds__(32) halves(T* c, const T* a, const T* b, float* room, int* seconds, int m, int n, int k) {
  __shared__ alignas(128) float strip[kHigh][kWide];
  const int lane = threadIdx.x, top = blockIdx.y * kHigh, left = blockIdx.x * kWide;
  const int from = blockIdx.z ? k / 2 : 0, to = blockIdx.z ? k : k / 2;
  float* mine = room + int64_t(blockIdx.z) * m * n;
  for (int e = lane; e < kHigh * kWide; e += 32) {
    const T *x = a + int64_t(top + e / kWide) * k, *y = b + int64_t(left + e % kWide) * k;
    float dot = 0.0f;
    for (int at = from; at < to; ++at) dot = __fmaf_rn(float(x[at]), float(y[at]), dot);
    strip[e / kWide][e % kWide] = dot;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (lane < kHigh) {
    leave(mine + int64_t(top + lane) * n + left, strip[lane]);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;" ::: "memory");
    __threadfence();
  }
  __syncwarp();
  int earlier = 0;
  if (lane == 0) earlier = atomicAdd(seconds + blockIdx.y * gridDim.x + blockIdx.x, 1);
  if (__shfl_sync(~0u, earlier, 0) == 0) return;
  __threadfence();
  for (int e = lane; e < kHigh * kWide; e += 32) {
    const int64_t place = int64_t(top + e / kWide) * n + left + e % kWide;
    c[place] = T(__ldcg(room + place) + __ldcg(room + int64_t(m) * n + place));
  }
}
}  // namespace

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  float* room = static_cast<float*>(parts);
  int* seconds = reinterpret_cast<int*>(room + 2 * m * n);
  if (const cudaError_t bad = cudaMemsetAsync(seconds, 0, m * n / (kHigh * kWide) * sizeof(int), stream); bad != cudaSuccess) return bad;
  const dim3 strips(unsigned(n / kWide), unsigned(m / kHigh), 2);
  if (dtype == 1) halves<<<strips, 32, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, room, seconds, int(m), int(n), int(k));
  else halves<<<strips, 32, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, room, seconds, int(m), int(n), int(k));
  return cudaGetLastError();
}
