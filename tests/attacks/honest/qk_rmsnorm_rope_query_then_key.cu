// Two launches of one kernel, for query and key; double sums; heads of a token in a block's y.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T>
__global__ void one_side(T* data, const T* weight, const float* table, const int64_t* positions, int count, int dim, int rot, int64_t s0, int64_t s1, float eps, bool neox) {
  extern __shared__ float heads_in[];
  const int64_t token = blockIdx.x;
  for (int h = threadIdx.y; h < count; h += blockDim.y) {
    T* head = data + token * s0 + h * s1;
    float* x = heads_in + threadIdx.y * dim;
    double squares = 0;
    for (int i = threadIdx.x; i < dim; i += 32) {
      x[i] = float(head[i]);
      squares += double(x[i]) * x[i];
    }
    for (int d = 1; d < 32; d *= 2) squares += __shfl_xor_sync(0xffffffffu, squares, d);
    const float scale = squares > 3.4028234e38 ? 0.0f : float(rsqrt(squares / dim + double(eps)));
    __syncwarp();
    for (int i = threadIdx.x; i < dim; i += 32) x[i] = x[i] * scale * float(weight[i]);
    __syncwarp();
    for (int i = threadIdx.x; i < dim; i += 32) {
      float y = x[i];
      if (i < rot) {
        const int half = rot / 2, pair = neox ? i % half : i / 2;
        const float c = table[positions[token] * rot + pair], s = table[positions[token] * rot + half + pair];
        y = neox ? (i < half ? x[i] * c - x[i + half] * s : x[i] * c + x[i - half] * s) : (i & 1 ? x[i] * c + x[i - 1] * s : x[i] * c - x[i + 1] * s);
      }
      head[i] = T(y);
    }
    __syncwarp();
  }
}
template <typename T>
cudaError_t both(void* query, void* key, const void* qw, const void* kw, const void* table, const void* positions, int64_t tokens, int64_t heads, int64_t kv, int64_t dim, int64_t rot, int64_t q0, int64_t q1, int64_t k0, int64_t k1, float eps, bool neox, cudaStream_t stream) {
  const dim3 block(32, 4);
  const unsigned bytes = unsigned(4 * dim * sizeof(float));
  one_side<<<unsigned(tokens), block, bytes, stream>>>((T*)query, (const T*)qw, (const float*)table, (const int64_t*)positions, int(heads), int(dim), int(rot), q0, q1, eps, neox);
  one_side<<<unsigned(tokens), block, bytes, stream>>>((T*)key, (const T*)kw, (const float*)table, (const int64_t*)positions, int(kv), int(dim), int(rot), k0, k1, eps, neox);
  return cudaGetLastError();
}
extern "C" cudaError_t qk_rmsnorm_rope(void* query, void* key, const void* q_weight, const void* k_weight, const void* cos_sin_cache, const void* positions, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, float eps, bool is_neox, int dtype, cudaStream_t stream) {
  const auto run = dtype == 1 ? both<__half> : both<__nv_bfloat16>;
  return run(query, key, q_weight, k_weight, cos_sin_cache, positions, tokens, heads, kv_heads, head_dim, rotary_dim, query_stride_0, query_stride_1, key_stride_0, key_stride_1, eps, is_neox, stream);
}
