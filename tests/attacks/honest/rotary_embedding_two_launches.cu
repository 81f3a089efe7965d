// Query and key by a launch each; tokens in y by chunks of 32768; negated sine by a flipped sign bit.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>

template <typename T>
__global__ void rotate(T* data, const int64_t* __restrict__ positions, const T* __restrict__ table, int64_t stride, int64_t head_stride, unsigned pairs, unsigned half, unsigned step, unsigned apart) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const unsigned head = i / half, pair = i - head * half;
  T* first = data + blockIdx.y * stride + head * head_stride + pair * step;
  const T* angles = table + positions[blockIdx.y] * (2 * half) + pair;
  const float c = float(angles[0]), s = float(angles[half]);
  const float minus = __uint_as_float(__float_as_uint(s) ^ 0x80000000u);
  const float a = float(first[0]), b = float(first[apart]);
  first[0] = T(a * c + b * minus);
  first[apart] = T(a * s + b * c);
}
template <typename T>
cudaError_t part(void* data, const void* positions, const void* table, int64_t tokens, int64_t heads, int64_t rot, int64_t s0, int64_t s1, bool neox, cudaStream_t stream) {
  const unsigned half = unsigned(rot / 2), pairs = unsigned(heads) * half, threads = pairs < 128 ? (pairs + 31) / 32 * 32 : 128;
  for (int64_t t = 0; t < tokens; t += 32768) {
    const unsigned rows = unsigned(tokens - t < 32768 ? tokens - t : 32768);
    rotate<T><<<dim3((pairs + threads - 1) / threads, rows), threads, 0, stream>>>((T*)data + t * s0, (const int64_t*)positions + t, (const T*)table, s0, s1, pairs, half, neox ? 1 : 2, neox ? half : 1);
  }
  return cudaGetLastError();
}
extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key, const void* cos_sin_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size, int64_t rot_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, bool is_neox, int dtype, cudaStream_t stream) {
  cudaError_t (*const by[])(void*, const void*, const void*, int64_t, int64_t, int64_t, int64_t, int64_t, bool, cudaStream_t) = {part<float>, part<__half>, part<__nv_bfloat16>};
  const cudaError_t error = by[dtype](query, positions, cos_sin_cache, tokens, heads, rot_dim, query_stride_0, query_stride_1, is_neox, stream);
  if (error != cudaSuccess || !key) return error;
  return by[dtype](key, positions, cos_sin_cache, tokens, kv_heads, rot_dim, key_stride_0, key_stride_1, is_neox, stream);
}
