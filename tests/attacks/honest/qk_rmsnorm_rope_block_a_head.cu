// Fused: a block of 64 threads a head, the head's elements as floats in shared memory, two barriers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

struct Side { void* data; const void* weight; int64_t token, head; int count; };
template <typename T, bool kNeox>
__global__ void head_a_block(Side q, Side k, const float* table, const int64_t* positions, int dim, int rot, float eps) {
  __shared__ float x[512], part[2];
  const int heads = q.count + k.count, h = blockIdx.x % heads;
  const int64_t token = blockIdx.x / heads;
  const Side& side = h < q.count ? q : k;
  T* head = static_cast<T*>(side.data) + token * side.token + (h < q.count ? h : h - q.count) * side.head;
  float sum = 0.f;
#pragma unroll 4
  for (int i = threadIdx.x; i < dim; i += 64) {
    x[i] = static_cast<float>(head[i]);
    sum = fmaf(x[i], x[i], sum);
  }
  for (int lanes = 1; lanes < 32; lanes += lanes) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  const float scale = 1.0f / sqrtf((part[0] + part[1]) / dim + eps);
  const T* weight = static_cast<const T*>(side.weight);
  const float* row = table + positions[token] * rot;
  for (int i = threadIdx.x; i < dim; i += 64) {
    float mine = x[i] * scale * static_cast<float>(weight[i]);
    if (i < rot) {
      const int pair = kNeox ? i % (rot / 2) : i / 2, other = kNeox ? (i < rot / 2 ? i + rot / 2 : i - rot / 2) : i ^ 1;
      const float theirs = x[other] * scale * static_cast<float>(weight[other]);
      const bool upper = kNeox ? i >= rot / 2 : i % 2;
      mine = mine * row[pair] + (upper ? theirs : -theirs) * row[rot / 2 + pair];
    }
    head[i] = static_cast<T>(mine);
  }
}
extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight, const void* k_weight, const void* cos_sin_cache, const void* positions, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, float eps, bool is_neox, int dtype, cudaStream_t stream) {
  const Side q{query, q_weight, query_stride_0, query_stride_1, int(heads)}, k{key, k_weight, key_stride_0, key_stride_1, int(kv_heads)};
  using Kernel = void (*)(Side, Side, const float*, const int64_t*, int, int, float);
  const Kernel kernels[2][2] = {{head_a_block<__half, false>, head_a_block<__half, true>}, {head_a_block<__nv_bfloat16, false>, head_a_block<__nv_bfloat16, true>}};
  kernels[dtype - 1][is_neox]<<<unsigned(tokens * (heads + kv_heads)), 64, 0, stream>>>(q, k, (const float*)cos_sin_cache, (const int64_t*)positions, int(head_dim), int(rotary_dim), eps);
  return cudaGetLastError();
}
