// Fused: a warp a head keeps it in registers as floats, norm by a butterfly, pairs through shared memory of the warp.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ __launch_bounds__(128) void fused(T* query, T* key, const T* qw, const T* kw, const float* table, const int64_t* positions, int64_t rows, int heads, int kv, int dim, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t k1, float eps, bool neox) {
  __shared__ float all[4][512];
  float* x = all[threadIdx.x / 32];
  const int lane = threadIdx.x % 32;
  const int64_t row = blockIdx.x * 4ll + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t token = row / (heads + kv);
  const int head = int(row % (heads + kv));
  T* at = head < heads ? query + token * q0 + head * q1 : key + token * k0 + (head - heads) * k1;
  const T* w = head < heads ? qw : kw;
  float squares = 0;
  for (int i = lane; i < dim; i += 32) {
    const float v = float(at[i]);
    x[i] = v;
    squares += v * v;
  }
  for (int d = 16; d; d /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, d);
  const float scale = rsqrtf(squares / dim + eps);
  for (int i = lane; i < dim; i += 32) x[i] *= scale * float(w[i]);
  __syncwarp();
  const float* angles = table + positions[token] * rot;
  const int half = rot / 2;
  for (int i = lane; i < half; i += 32) {
    const int a = neox ? i : 2 * i, b = neox ? i + half : a + 1;
    at[a] = T(x[a] * angles[i] - x[b] * angles[half + i]);
    at[b] = T(x[b] * angles[i] + x[a] * angles[half + i]);
  }
  for (int i = rot + lane; i < dim; i += 32) at[i] = T(x[i]);
}
extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight, const void* k_weight, const void* cos_sin_cache, const void* positions, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, float eps, bool is_neox, int dtype, cudaStream_t stream) {
  const int64_t rows = tokens * (heads + kv_heads);
  const unsigned blocks = unsigned((rows + 3) / 4);
  const auto* table = (const float*)cos_sin_cache;
  const auto* at = (const int64_t*)positions;
  if (dtype == 1) fused<<<blocks, 128, 0, stream>>>((__half*)query, (__half*)key, (const __half*)q_weight, (const __half*)k_weight, table, at, rows, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride_0, key_stride_1, eps, is_neox);
  if (dtype == 2) fused<<<blocks, 128, 0, stream>>>((__nv_bfloat16*)query, (__nv_bfloat16*)key, (const __nv_bfloat16*)q_weight, (const __nv_bfloat16*)k_weight, table, at, rows, int(heads), int(kv_heads), int(head_dim), int(rotary_dim), query_stride_0, query_stride_1, key_stride_0, key_stride_1, eps, is_neox);
  return cudaGetLastError();
}
