// One block a token: 16 bytes at a time where source and target allow it, else single elements.
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__device__ void copy_head(const T* from, T* to, int64_t count) {
  const bool whole = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % 16 == 0 &&
                     count * sizeof(T) % 16 == 0;
  if (whole) {
    for (int64_t i = threadIdx.x; i < int64_t(count * sizeof(T) / 16); i += blockDim.x)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  } else {
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
  }
}

template <typename T>
__global__ void write(const T* key, const T* value, T* key_cache, T* value_cache,
                      const int64_t* slots, int64_t heads, int64_t size, int64_t block_size,
                      int64_t k0, int64_t k1, int64_t v0, int64_t v1, int64_t kc, int64_t vc) {
  const int64_t token = blockIdx.x, slot = slots[token];
  if (slot < 0) return;
  const int64_t block = slot / block_size, at = slot % block_size * heads * size;
  for (int64_t head = 0; head < heads; ++head) {
    copy_head(key + token * k0 + head * k1, key_cache + block * kc + at + head * size, size);
    copy_head(value + token * v0 + head * v1, value_cache + block * vc + at + head * size, size);
  }
}

template <typename T>
void start(const void* key, const void* value, void* key_cache, void* value_cache,
           const void* slots, int64_t tokens, int64_t heads, int64_t size, int64_t block_size,
           int64_t k0, int64_t k1, int64_t v0, int64_t v1, int64_t kc, int64_t vc,
           cudaStream_t stream) {
  write<T><<<unsigned(tokens), 64, 0, stream>>>((const T*)key, (const T*)value, (T*)key_cache,
                                                (T*)value_cache, (const int64_t*)slots, heads, size,
                                                block_size, k0, k1, v0, v1, kc, vc);
}

extern "C" cudaError_t reshape_and_cache(const void* key, const void* value, void* key_cache,
                                         void* value_cache, const void* slot_mapping,
                                         int64_t tokens, int64_t heads, int64_t head_size,
                                         int64_t blocks, int64_t block_size, int64_t key_stride_0,
                                         int64_t key_stride_1, int64_t value_stride_0,
                                         int64_t value_stride_1, int64_t key_cache_stride,
                                         int64_t value_cache_stride, int dtype,
                                         cudaStream_t stream) {
  auto* run = dtype == 0 ? &start<uint32_t> : &start<uint16_t>;
  run(key, value, key_cache, value_cache, slot_mapping, tokens, heads, head_size, block_size,
      key_stride_0, key_stride_1, value_stride_0, value_stride_1, key_cache_stride,
      value_cache_stride, stream);
  return cudaGetLastError();
}
