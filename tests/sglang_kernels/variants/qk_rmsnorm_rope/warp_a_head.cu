// One launch: a warp a token and head holds the head in registers as fp32, norms it, and turns it
// before anything is rounded. Partners are exchanged by way of shared memory.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

constexpr int kWarps = 4;
constexpr int kMostDim = 512;

template <typename T>
__global__ void norm_and_turn(T* query, T* key, const T* q_weight, const T* k_weight,
                              const float* table, const int64_t* positions, int64_t tokens,
                              int64_t heads, int64_t kv_heads, int dim, int rotary, int64_t q0,
                              int64_t q1, int64_t k0, int64_t k1, float eps, bool neox) {
  __shared__ float rows[kWarps][kMostDim];
  const int lane = threadIdx.x % 32, half = rotary / 2;
  const int64_t item = int64_t(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t token = item / (heads + kv_heads), which = item % (heads + kv_heads);
  if (token >= tokens) return;
  const bool of_query = which < heads;
  T* head = of_query ? query + token * q0 + which * q1 : key + token * k0 + (which - heads) * k1;
  const T* weight = of_query ? q_weight : k_weight;
  const float* angles = table + positions[token] * rotary;
  float* row = rows[threadIdx.x / 32];

  float squares = 0.0f;
  for (int i = lane; i < dim; i += 32) squares += float(head[i]) * float(head[i]);
  for (int step = 1; step < 32; step *= 2) squares += __shfl_xor_sync(~0u, squares, step);
  const float scale = rsqrtf(squares / dim + eps);
  for (int i = lane; i < dim; i += 32) row[i] = float(head[i]) * scale * float(weight[i]);
  __syncwarp();
  for (int pair = lane; pair < half; pair += 32) {
    const int at = neox ? pair : 2 * pair, beside = neox ? half + pair : 2 * pair + 1;
    const float cos = angles[pair], sin = angles[half + pair];
    head[at] = T(row[at] * cos - row[beside] * sin);
    head[beside] = T(row[beside] * cos + row[at] * sin);
  }
  for (int i = rotary + lane; i < dim; i += 32) head[i] = T(row[i]);
}

extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight,
                                       const void* k_weight, const void* cos_sin_cache,
                                       const void* positions, int64_t tokens, int64_t heads,
                                       int64_t kv_heads, int64_t head_dim, int64_t rotary_dim,
                                       int64_t max_position, int64_t query_stride_0,
                                       int64_t query_stride_1, int64_t key_stride_0,
                                       int64_t key_stride_1, float eps, bool is_neox, int dtype,
                                       cudaStream_t stream) {
  const int64_t items = tokens * (heads + kv_heads);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    norm_and_turn<<<unsigned((items + kWarps - 1) / kWarps), 32 * kWarps, 0, stream>>>(
        (T*)query, (T*)key, (const T*)q_weight, (const T*)k_weight, (const float*)cos_sin_cache,
        (const int64_t*)positions, tokens, heads, kv_heads, int(head_dim), int(rotary_dim),
        query_stride_0, query_stride_1, key_stride_0, key_stride_1, eps, is_neox);
  };
  if (dtype == 1) run(__half{});
  if (dtype == 2) run(__nv_bfloat16{});
  return cudaGetLastError();
}
