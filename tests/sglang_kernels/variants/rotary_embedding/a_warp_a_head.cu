// A warp a token and head: heads of the query first, then of the key, in one flat grid.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void rotate(const int64_t* positions, T* query, T* key, const T* table, int64_t tokens,
                       int64_t heads, int64_t kv_heads, int64_t q0, int64_t q1, int64_t k0,
                       int64_t k1, int half, bool neox) {
  const int64_t warp = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int64_t token = warp / (heads + kv_heads), which = warp % (heads + kv_heads);
  if (token >= tokens) return;
  T* head = which < heads ? query + token * q0 + which * q1
                          : key + token * k0 + (which - heads) * k1;
  const T* row = table + positions[token] * 2 * half;
  for (int pair = threadIdx.x % 32; pair < half; pair += 32) {
    const int at = neox ? pair : 2 * pair, beside = neox ? half : 1;
    const float c = float(row[pair]), s = float(row[pair + half]);
    const float x = float(head[at]), y = float(head[at + beside]);
    head[at] = T(x * c - y * s);
    head[at + beside] = T(y * c + x * s);
  }
}

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  const int64_t of_key = key ? kv_heads : 0, warps = tokens * (heads + of_key);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    rotate<<<unsigned((warps + 3) / 4), 128, 0, stream>>>(
        (const int64_t*)positions, (T*)query, (T*)key, (const T*)cos_sin_cache, tokens, heads,
        of_key, query_stride_0, query_stride_1, key_stride_0, key_stride_1, int(rot_dim / 2),
        is_neox);
  };
  if (dtype == 0) run(float{});
  if (dtype == 1) run(__half{});
  if (dtype == 2) run(__nv_bfloat16{});
  return cudaGetLastError();
}
