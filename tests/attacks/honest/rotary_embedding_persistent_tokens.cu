// Blocks walk over tokens in strides of the grid; query and key are one range of heads; division by a float reciprocal.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T>
__global__ __launch_bounds__(192) void walk(const int64_t* positions, T* query, T* key, const T* table, int64_t tokens, int heads, int kv_heads, int half, int64_t q0, int64_t q1, int64_t k0, int64_t k1, bool neox) {
  const int work = (heads + (key ? kv_heads : 0)) * half;
  for (int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    const T* angles = table + __ldg(positions + token) * 2 * half;
    for (int w = threadIdx.x; w < work; w += 192) {
      int head = __float2int_rz(__int2float_rn(w) * __frcp_rn(__int2float_rn(half)));
      if (head * half > w) --head;
      if ((head + 1) * half <= w) ++head;
      const int pair = w - head * half;
      T* x = head < heads ? query + token * q0 + head * q1 : key + token * k0 + (head - heads) * k1;
      const int i = neox ? pair : pair << 1, j = neox ? pair + half : i | 1;
      const float c = angles[pair], s = angles[pair + half], a = x[i], b = x[j];
      x[i] = a * c - b * s;
      x[j] = b * c + a * s;
    }
  }
}
extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key, const void* cos_sin_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size, int64_t rot_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, bool is_neox, int dtype, cudaStream_t stream) {
  const unsigned grid = unsigned(tokens < 1320 ? tokens : 1320);
  const auto* p = (const int64_t*)positions;
  const int h = int(heads), kv = int(kv_heads), half = int(rot_dim / 2);
  if (dtype == 0) walk<<<grid, 192, 0, stream>>>(p, (float*)query, (float*)key, (const float*)cos_sin_cache, tokens, h, kv, half, query_stride_0, query_stride_1, key_stride_0, key_stride_1, is_neox);
  if (dtype == 1) walk<<<grid, 192, 0, stream>>>(p, (__half*)query, (__half*)key, (const __half*)cos_sin_cache, tokens, h, kv, half, query_stride_0, query_stride_1, key_stride_0, key_stride_1, is_neox);
  if (dtype == 2) walk<<<grid, 192, 0, stream>>>(p, (__nv_bfloat16*)query, (__nv_bfloat16*)key, (const __nv_bfloat16*)cos_sin_cache, tokens, h, kv, half, query_stride_0, query_stride_1, key_stride_0, key_stride_1, is_neox);
  return cudaGetLastError();
}
