// Streaming hints of the load/store unit by hand, four elements a thread, a scalar tail.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T> struct alignas(4 * sizeof(T)) Four { T lane[4]; };

__device__ __forceinline__ uint2 load_once(const uint2* at) {
  uint2 got;
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(got.x), "=r"(got.y) : "l"(at));
  return got;
}
__device__ __forceinline__ uint4 load_once(const uint4* at) { return __ldcs(at); }
__device__ __forceinline__ void store_once(uint2* at, uint2 v) { __stcs(at, v); }
__device__ __forceinline__ void store_once(uint4* at, uint4 v) { __stcs(at, v); }

__device__ __forceinline__ float silu_times(float gate, float up) {
  return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

template <typename T, typename Raw>
__device__ void four_of_row(T* out, const T* input, int64_t token, int64_t d) {
  const T* gates = input + token * 2 * d;
  T* result = out + token * d;
  const bool vectors = d % 4 == 0 && uintptr_t(gates) % sizeof(Raw) == 0 &&
                       uintptr_t(result) % sizeof(Raw) == 0;
  const int64_t first = 4 * (int64_t(blockIdx.x) * blockDim.x + threadIdx.x);
  if (first >= d) return;
  if (!vectors) {
    for (int64_t i = first; i < d && i < first + 4; ++i) {
      const float gate = float(gates[i]);
      result[i] = T(gate < -87.0f ? gate * 0.0f * float(gates[d + i])
                                  : silu_times(gate, float(gates[d + i])));
    }
    return;
  }
  Raw g = load_once(reinterpret_cast<const Raw*>(gates + first));
  const Raw u = load_once(reinterpret_cast<const Raw*>(gates + d + first));
  T* gl = reinterpret_cast<T*>(&g);
  const T* ul = reinterpret_cast<const T*>(&u);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float gate = float(gl[k]);
    gl[k] = T(gate < -87.0f ? gate * 0.0f * float(ul[k]) : silu_times(gate, float(ul[k])));
  }
  store_once(reinterpret_cast<Raw*>(result + first), g);
}

template <typename T, typename Raw>
__global__ void by_fours(T* out, const T* input, int64_t tokens, int64_t d) {
  for (int64_t token = blockIdx.y; token < tokens; token += gridDim.y)
    four_of_row<T, Raw>(out, input, token, d);
}

template <typename T, typename Raw>
static cudaError_t go(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const dim3 grid(unsigned((d + 511) / 512), unsigned(tokens < 32768 ? tokens : 32768));
  by_fours<T, Raw><<<grid, 128, 0, stream>>>((T*)out, (const T*)input, tokens, d);
  return cudaGetLastError();
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  if (dtype == 0) return go<float, uint4>(out, input, tokens, d, stream);
  if (dtype == 1) return go<__half, uint2>(out, input, tokens, d, stream);
  return go<__nv_bfloat16, uint2>(out, input, tokens, d, stream);
}
