// Kernels for 1 to 16 experts in a table of function pointers, pairs of elements as words.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <utility>

struct Shape { int64_t pairs, per_row; int experts; float scale; };
__device__ inline float2 up(__half2 v) { return __half22float2(v); }
__device__ inline float2 up(__nv_bfloat162 v) { return __bfloat1622float2(v); }
__device__ inline float2 up(float2 v) { return v; }
__device__ inline void down(__half2& to, float2 v) { to = __float22half2_rn(v); }
__device__ inline void down(__nv_bfloat162& to, float2 v) { to = __float22bfloat162_rn(v); }
__device__ inline void down(float2& to, float2 v) { to = v; }

template <typename P, int kExperts>
__global__ void pairs(const P* __restrict__ in, P* __restrict__ out, Shape shape) {
  const int64_t pair = blockIdx.x * 256ll + threadIdx.x;
  if (pair >= shape.pairs) return;
  const int experts = kExperts ? kExperts : shape.experts;
  const P* from = in + pair / shape.per_row * experts * shape.per_row + pair % shape.per_row;
  float2 sum = make_float2(0.f, 0.f);
  if constexpr (kExperts > 0) {
    P all[kExperts];
#pragma unroll
    for (int e = 0; e < kExperts; ++e) all[e] = __ldg(from + e * shape.per_row);
#pragma unroll
    for (int e = 0; e < kExperts; ++e) {
      const float2 v = up(all[e]);
      sum.x += v.x;
      sum.y += v.y;
    }
  } else {
    for (int e = 0; e < experts; ++e) {
      const float2 v = up(from[e * shape.per_row]);
      sum.x += v.x;
      sum.y += v.y;
    }
  }
  down(out[pair], make_float2(sum.x * shape.scale, sum.y * shape.scale));
}
template <typename P, int... kExperts>
void choose(const void* in, void* out, const Shape& shape, cudaStream_t stream, std::integer_sequence<int, kExperts...>) {
  using Kernel = void (*)(const P*, P*, Shape);
  const Kernel table[] = {pairs<P, kExperts>...};
  const Kernel kernel = shape.experts < int(sizeof...(kExperts)) ? table[shape.experts] : table[0];
  kernel<<<unsigned((shape.pairs + 255) / 256), 256, 0, stream>>>((const P*)in, (P*)out, shape);
}
extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens, int64_t experts, int64_t hidden, float scale, int dtype, cudaStream_t stream) {
  const Shape shape{tokens * hidden / 2, hidden / 2, int(experts), scale};
  constexpr std::make_integer_sequence<int, 17> counts;
  if (dtype == 0) choose<float2>(input, output, shape, stream, counts);
  if (dtype == 1) choose<__half2>(input, output, shape, stream, counts);
  if (dtype == 2) choose<__nv_bfloat162>(input, output, shape, stream, counts);
  return cudaGetLastError();
}
