// The token's row of the table goes to shared memory as floats; warps take heads in turns.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T, bool kNeox>
__device__ void turn(T* head, const float* cos_sin, int half) {
  for (int p = threadIdx.x; p < half; p += 32) {
    T *lower = head + (kNeox ? p : p + p), *upper = lower + (kNeox ? half : 1);
    const float u = static_cast<float>(*lower), v = static_cast<float>(*upper);
    *lower = static_cast<T>(fmaf(u, cos_sin[p], -v * cos_sin[half + p]));
    *upper = static_cast<T>(fmaf(v, cos_sin[p], u * cos_sin[half + p]));
  }
}
template <typename T, bool kNeox>
__global__ void token_a_block(const int64_t* positions, T* q, T* k, const T* table, int heads, int kv_heads, int rot, int64_t q0, int64_t q1, int64_t k0, int64_t k1) {
  extern __shared__ float cos_sin[];
  const T* row = table + positions[blockIdx.x] * rot;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < rot; i += 128) cos_sin[i] = static_cast<float>(row[i]);
  __syncthreads();
  for (int h = threadIdx.y; h < heads; h += 4) turn<T, kNeox>(q + blockIdx.x * q0 + h * q1, cos_sin, rot / 2);
  if (k)
    for (int h = threadIdx.y; h < kv_heads; h += 4) turn<T, kNeox>(k + blockIdx.x * k0 + h * k1, cos_sin, rot / 2);
}
extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key, const void* cos_sin_cache, int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_size, int64_t rot_dim, int64_t max_position, int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride_0, int64_t key_stride_1, bool is_neox, int dtype, cudaStream_t stream) {
  const auto go = [&](auto* zero) {
    using T = std::remove_pointer_t<decltype(zero)>;
    const auto kernel = is_neox ? token_a_block<T, true> : token_a_block<T, false>;
    kernel<<<unsigned(tokens), dim3(32, 4), unsigned(rot_dim * 4), stream>>>((const int64_t*)positions, (T*)query, (T*)key, (const T*)cos_sin_cache, int(heads), int(kv_heads), int(rot_dim), query_stride_0, query_stride_1, key_stride_0, key_stride_1);
    return cudaGetLastError();
  };
  return dtype == 0 ? go((float*)nullptr) : dtype == 1 ? go((__half*)nullptr) : go((__nv_bfloat16*)nullptr);
}
