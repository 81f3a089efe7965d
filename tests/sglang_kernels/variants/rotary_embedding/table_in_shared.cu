// One block a token: its row of the table goes to shared memory as fp32 first.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__device__ void turn(T* heads_of_token, const float* row, int64_t count, int64_t stride, int half,
                     bool neox) {
  for (int64_t i = threadIdx.x; i < count * half; i += blockDim.x) {
    T* head = heads_of_token + i / half * stride;
    const int pair = int(i % half), at = neox ? pair : 2 * pair, beside = neox ? half : 1;
    const float x = float(head[at]), y = float(head[at + beside]);
    head[at] = T(x * row[pair] - y * row[half + pair]);
    head[at + beside] = T(y * row[pair] + x * row[half + pair]);
  }
}

template <typename T>
__global__ void rotate(const int64_t* positions, T* query, T* key, const T* table, int64_t heads,
                       int64_t kv_heads, int64_t q0, int64_t q1, int64_t k0, int64_t k1, int half,
                       bool neox) {
  __shared__ float row[576];
  const int64_t token = blockIdx.x, position = positions[token];
  for (int i = threadIdx.x; i < 2 * half; i += blockDim.x)
    row[i] = float(table[position * 2 * half + i]);
  __syncthreads();
  turn(query + token * q0, row, heads, q1, half, neox);
  if (key) turn(key + token * k0, row, kv_heads, k1, half, neox);
}

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    rotate<<<unsigned(tokens), 64, 0, stream>>>(
        (const int64_t*)positions, (T*)query, (T*)key, (const T*)cos_sin_cache, heads, kv_heads,
        query_stride_0, query_stride_1, key_stride_0, key_stride_1, int(rot_dim / 2), is_neox);
  };
  if (dtype == 0) run(float{});
  if (dtype == 1) run(__half{});
  if (dtype == 2) run(__nv_bfloat16{});
  return cudaGetLastError();
}
