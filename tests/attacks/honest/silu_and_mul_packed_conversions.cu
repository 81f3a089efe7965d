// half2 and bfloat162: two elements are loaded, converted, multiplied in fp32 and packed at a time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T> struct Pair;
template <> struct Pair<__half> {
  using type = __half2;
  static __device__ float2 wide(type v) { return __half22float2(v); }
  static __device__ type narrow(float2 v) { return __float22half2_rn(v); }
};
template <> struct Pair<__nv_bfloat16> {
  using type = __nv_bfloat162;
  static __device__ float2 wide(type v) { return __bfloat1622float2(v); }
  static __device__ type narrow(float2 v) { return __float22bfloat162_rn(v); }
};
template <> struct Pair<float> {
  using type = float2;
  static __device__ float2 wide(type v) { return v; }
  static __device__ type narrow(float2 v) { return v; }
};

__device__ float silu(float v) { return v / (1.0f + __expf(-v)); }

template <typename T>
__global__ void activate(void* out, const void* input, int64_t pairs) {
  using P = Pair<T>;
  const auto* gate = static_cast<const typename P::type*>(input) + int64_t(blockIdx.x) * 2 * pairs;
  auto* row = static_cast<typename P::type*>(out) + int64_t(blockIdx.x) * pairs;
  for (int64_t i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 a = P::wide(gate[i]), b = P::wide(gate[pairs + i]);
    row[i] = P::narrow(make_float2(silu(a.x) * b.x, silu(a.y) * b.y));
  }
}

template <typename T>
static cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  activate<T><<<unsigned(tokens), 256, 0, stream>>>(out, input, d / 2);
  return cudaGetLastError();
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
