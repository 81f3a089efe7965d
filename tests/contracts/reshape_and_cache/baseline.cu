// One block a token: threads copy its key and value to its slot, element by element.
#include <cstdint>
#include <cuda_runtime.h>

struct Strides {
  int64_t token;
  int64_t head;
  int64_t block;
};

template <typename T>
__device__ void copy(const T* source, T* cache, Strides strides, int64_t slot, int64_t heads,
                     int64_t head_size, int64_t block_size) {
  const int64_t row = heads * head_size;
  T* target = cache + slot / block_size * strides.block + slot % block_size * row;
  for (int64_t i = threadIdx.x; i < row; i += blockDim.x)
    target[i] = source[i / head_size * strides.head + i % head_size];
}

template <typename T>
__global__ void write(const T* key, const T* value, T* key_cache, T* value_cache,
                      const int64_t* slot_mapping, Strides k, Strides v, int64_t heads,
                      int64_t head_size, int64_t block_size) {
  const int64_t token = blockIdx.x, slot = slot_mapping[token];
  if (slot < 0) return;
  copy(key + token * k.token, key_cache, k, slot, heads, head_size, block_size);
  copy(value + token * v.token, value_cache, v, slot, heads, head_size, block_size);
}

template <typename T>
void start(const void* key, const void* value, void* key_cache, void* value_cache,
           const void* slot_mapping, int64_t tokens, Strides k, Strides v, int64_t heads,
           int64_t head_size, int64_t block_size, cudaStream_t stream) {
  const int64_t row = heads * head_size;
  const unsigned threads = unsigned(row < 512 ? (row + 31) / 32 * 32 : 512);
  write<T><<<unsigned(tokens), threads, 0, stream>>>(
      static_cast<const T*>(key), static_cast<const T*>(value), static_cast<T*>(key_cache),
      static_cast<T*>(value_cache), static_cast<const int64_t*>(slot_mapping), k, v, heads,
      head_size, block_size);
}

extern "C" cudaError_t reshape_and_cache(const void* key, const void* value, void* key_cache,
                                         void* value_cache, const void* slot_mapping,
                                         int64_t tokens, int64_t heads, int64_t head_size,
                                         int64_t blocks, int64_t block_size, int64_t key_stride_0,
                                         int64_t key_stride_1, int64_t value_stride_0,
                                         int64_t value_stride_1, int64_t key_cache_stride,
                                         int64_t value_cache_stride, int dtype,
                                         cudaStream_t stream) {
  const Strides k{key_stride_0, key_stride_1, key_cache_stride};
  const Strides v{value_stride_0, value_stride_1, value_cache_stride};
  if (dtype == 0)
    start<uint32_t>(key, value, key_cache, value_cache, slot_mapping, tokens, k, v, heads, head_size,
                    block_size, stream);
  else
    start<uint16_t>(key, value, key_cache, value_cache, slot_mapping, tokens, k, v, heads, head_size,
                    block_size, stream);
  return cudaGetLastError();
}
