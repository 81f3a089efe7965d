// Cache hints in inline PTX: the table stays in the L1 while the block runs, numbers are read once, results
// stream past.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

__device__ __forceinline__ float load(const float* p) {
  float v;
  asm("ld.global.nc.L1::evict_last.L2::128B.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ float load(const __half* p) {
  unsigned short bits;
  asm("ld.global.nc.L1::evict_last.L2::128B.u16 %0, [%1];" : "=h"(bits) : "l"(p));
  return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ long long number(const long long* p) {
  long long v;
  asm("ld.global.nc.L1::no_allocate.s64 %0, [%1];" : "=l"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ long long number(const int* p) {
  int v;
  asm("ld.global.nc.L1::no_allocate.s32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ void stream_out(float* p, float v) { asm volatile("st.global.cs.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory"); }
__device__ __forceinline__ void stream_out(__half* p, float v) {
  asm volatile("st.global.cs.u16 [%0], %1;" ::"l"(p), "h"(__half_as_ushort(__float2half_rn(v))) : "memory");
}

template <typename T, typename I>
__global__ void hinted(T* out, const T* table, const I* index, const float* weight, int64_t width, int64_t stride) {
  const int64_t row = blockIdx.x;
  const long long entry = number(index + row);
  const float factor = weight ? load(weight + row) : 1.0f;
  for (int64_t i = threadIdx.x; i < width; i += 128)
    stream_out(out + row * width + i, entry < 0 ? 0.0f : load(table + entry * stride + i) * factor);
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  if (dtype == 0)
    hinted<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)table, (const long long*)index, (const float*)weight, width, table_stride);
  else
    hinted<<<unsigned(rows), 128, 0, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, width, table_stride);
  return cudaGetLastError();
}
