// Fused: dim / 8 lanes a head with a vector each; the partner's vector by shuffles, or by shared memory where a head has 64 lanes.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T> struct alignas(16) V8 { T v[8]; };
template <typename T>
__global__ __launch_bounds__(128) void lanes(T* query, T* key, const T* qw, const T* kw, const float* table, const int64_t* positions, int64_t rows, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t k1, float eps, bool neox) {
  __shared__ float sums[4];
  __shared__ float values[128][9];
  const int per = dim / 8, lane = threadIdx.x % per;
  const int64_t row = blockIdx.x * int64_t(128 / per) + threadIdx.x / per;
  const bool there = row < rows;
  const int64_t token = there ? row / (heads + kv) : 0;
  const int head = there ? int(row % (heads + kv)) : 0;
  T* at = (head < heads ? query + token * q0 + head * q1 : key + token * k0 + (head - heads) * k1) + lane * 8;
  const T* w = (head < heads ? qw : kw) + lane * 8;
  float x[8], sum = 0;
  const V8<T> weight = *reinterpret_cast<const V8<T>*>(w);
  V8<T> in{};
  if (there) in = *reinterpret_cast<const V8<T>*>(at);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = float(in.v[i]);
    sum += x[i] * x[i];
  }
  for (int d = (per < 32 ? per : 32) / 2; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (per == 64) {
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = sums[threadIdx.x / 32] + sums[threadIdx.x / 32 ^ 1];
  }
  const float scale = rsqrtf(sum / float(dim) + eps);
#pragma unroll
  for (int i = 0; i < 8; ++i) values[threadIdx.x][i] = x[i] *= scale * float(weight.v[i]);
  __syncthreads();
  if (!there) return;
  const float* angle = table + positions[token] * rot;
  const int first = lane * 8, half = rot / 2;
  V8<T> out;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int e = first + i;
    float result = x[i];
    if (e < rot) {
      const bool upper = neox ? e >= half : e & 1;
      const int other = neox ? (upper ? e - half : e + half) : e ^ 1, pair = neox ? e % half : e / 2;
      const float theirs = values[threadIdx.x - lane + other / 8][other % 8];
      result = x[i] * angle[pair] + (upper ? theirs : -theirs) * angle[half + pair];
    }
    out.v[i] = T(result);
  }
  *reinterpret_cast<V8<T>*>(at) = out;
}
extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight, const void* k_weight, const void* cos_sin_cache, const void* positions, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, float eps, bool is_neox, int dtype, cudaStream_t stream) {
  const int64_t rows = tokens * (heads + kv_heads), of_block = 128 / (head_dim / 8);
  const auto launch = [&](auto* q) {
    using T = std::remove_pointer_t<decltype(q)>;
    lanes<T><<<unsigned((rows + of_block - 1) / of_block), 128, 0, stream>>>(q, (T*)key, (const T*)q_weight, (const T*)k_weight, (const float*)cos_sin_cache, (const int64_t*)positions, rows, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride_0, key_stride_1, eps, is_neox);
    return cudaGetLastError();
  };
  return dtype == 1 ? launch((__half*)query) : launch((__nv_bfloat16*)query);
}
