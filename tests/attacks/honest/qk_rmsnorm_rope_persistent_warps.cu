// Persistent warps over heads; weights of both sides in shared memory as floats; registers sized by template on the head.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

struct Strides { int64_t x, y, z, w; };

template <typename T, int kDim>
__global__ __launch_bounds__(256) void walk(T* query, T* key, const T* qw, const T* kw, const float* table, const int64_t* positions, int64_t rows, int heads, int all, int rot, Strides stride, float eps, int neox) {
  __shared__ float weights[2][kDim];
  for (int i = threadIdx.x; i < kDim; i += 256) {
    weights[0][i] = float(qw[i]);
    weights[1][i] = float(kw[i]);
  }
  __syncthreads();
  constexpr int kEach = kDim / 32;
  const int lane = threadIdx.x & 31, half = rot / 2;
  for (int64_t row = blockIdx.x * 8ll + (threadIdx.x >> 5); row < rows; row += gridDim.x * 8ll) {
    const int64_t token = row / all;
    const int head = int(row - token * all), side = head >= heads;
    T* at = side ? key + token * stride.z + (head - heads) * stride.w : query + token * stride.x + head * stride.y;
    float x[kEach], sum = 0.f;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      x[i] = float(at[i * 32 + lane]);
      sum += x[i] * x[i];
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float scale = rsqrtf(sum * (1.0f / kDim) + eps);
    const float* angle = table + positions[token] * rot;
#pragma unroll
    for (int i = 0; i < kEach; ++i) x[i] *= scale * weights[side][i * 32 + lane];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int e = i * 32 + lane;
      const bool upper = neox ? e >= half : e & 1;
      const int other = e >= rot ? e : neox ? (upper ? e - half : e + half) : e ^ 1;
      float theirs = 0.f;
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const float got = __shfl_sync(0xffffffffu, x[k], other & 31);
        if (k == other / 32) theirs = got;
      }
      if (e < rot) {
        const int pair = neox ? e % half : e >> 1;
        at[e] = T(x[i] * angle[pair] + (upper ? theirs : -theirs) * angle[half + pair]);
      } else {
        at[e] = T(x[i]);
      }
    }
  }
}
extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight, const void* k_weight, const void* cos_sin_cache, const void* positions, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, float eps, bool is_neox, int dtype, cudaStream_t stream) {
  const int64_t rows = tokens * (heads + kv_heads), blocks = (rows + 7) / 8;
  const unsigned grid = unsigned(blocks < 528 ? blocks : 528);
  Strides stride;
  stride.x = query_stride_0; stride.y = query_stride_1; stride.z = key_stride_0; stride.w = key_stride_1;
  const auto of = [&](auto* q, auto kernel) {
    using T = std::remove_pointer_t<decltype(q)>;
    kernel<<<grid, 256, 0, stream>>>(q, (T*)key, (const T*)q_weight, (const T*)k_weight, (const float*)cos_sin_cache, (const int64_t*)positions, rows, int(heads), int(heads + kv_heads), int(rotary_dim), stride, eps, int(is_neox));
    return cudaGetLastError();
  };
  const auto by_dim = [&](auto* q) {
    using T = std::remove_pointer_t<decltype(q)>;
    switch (head_dim) {
      case 64: return of(q, walk<T, 64>);
      case 128: return of(q, walk<T, 128>);
      case 256: return of(q, walk<T, 256>);
      default: return of(q, walk<T, 512>);
    }
  };
  return dtype == 1 ? by_dim((__half*)query) : by_dim((__nv_bfloat16*)query);
}
