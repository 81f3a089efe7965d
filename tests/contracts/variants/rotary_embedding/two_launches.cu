// A launch for the query and one for the key; neighbours in pairs of 32 bits where they may be.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, typename T2>
__global__ void rotate(const int64_t* positions, T* x, const T* table, int64_t stride0,
                       int64_t stride1, int half, bool neox) {
  T* head = x + blockIdx.x * stride0 + blockIdx.y * stride1;
  const T* row = table + positions[blockIdx.x] * 2 * half;
  const bool whole = !neox && reinterpret_cast<uintptr_t>(head) % sizeof(T2) == 0;
  for (int pair = threadIdx.x; pair < half; pair += blockDim.x) {
    const float c = float(row[pair]), s = float(row[half + pair]);
    if (whole) {
      T2 both = reinterpret_cast<T2*>(head)[pair];
      const float a = float(both.x), b = float(both.y);
      both.x = T(a * c - b * s);
      both.y = T(b * c + a * s);
      reinterpret_cast<T2*>(head)[pair] = both;
    } else {
      const int first = neox ? pair : 2 * pair, second = neox ? pair + half : 2 * pair + 1;
      const float a = float(head[first]), b = float(head[second]);
      head[first] = T(a * c - b * s);
      head[second] = T(b * c + a * s);
    }
  }
}

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  const int half = int(rot_dim / 2);
  const auto* at = static_cast<const int64_t*>(positions);
  const dim3 of_query{unsigned(tokens), unsigned(heads)}, of_key{unsigned(tokens), unsigned(kv_heads)};
  if (dtype == 1) {
    const auto* table = static_cast<const __half*>(cos_sin_cache);
    rotate<__half, __half2><<<of_query, 64, 0, stream>>>(at, static_cast<__half*>(query), table,
                                                         query_stride_0, query_stride_1, half, is_neox);
    rotate<__half, __half2><<<of_key, 64, 0, stream>>>(at, static_cast<__half*>(key), table,
                                                       key_stride_0, key_stride_1, half, is_neox);
  } else {
    const auto* table = static_cast<const __nv_bfloat16*>(cos_sin_cache);
    rotate<__nv_bfloat16, __nv_bfloat162><<<of_query, 64, 0, stream>>>(
        at, static_cast<__nv_bfloat16*>(query), table, query_stride_0, query_stride_1, half, is_neox);
    rotate<__nv_bfloat16, __nv_bfloat162><<<of_key, 64, 0, stream>>>(
        at, static_cast<__nv_bfloat16*>(key), table, key_stride_0, key_stride_1, half, is_neox);
  }
  return cudaGetLastError();
}
