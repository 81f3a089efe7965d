// A flat grid over all elements of all tokens.
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void write(const T* key, const T* value, T* key_cache, T* value_cache,
                      const int64_t* slots, int64_t all, int64_t heads, int64_t size,
                      int64_t block_size, int64_t k0, int64_t k1, int64_t v0, int64_t v1, int64_t kc,
                      int64_t vc) {
  const int64_t row = heads * size, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const int64_t token = i / row, slot = slots[token], at = i % row;
    if (slot < 0) continue;
    const int64_t block = slot / block_size, to = slot % block_size * row + at;
    key_cache[block * kc + to] = key[token * k0 + at / size * k1 + at % size];
    value_cache[block * vc + to] = value[token * v0 + at / size * v1 + at % size];
  }
}

template <typename T>
void start(const void* key, const void* value, void* key_cache, void* value_cache,
           const void* slots, int64_t tokens, int64_t heads, int64_t size, int64_t block_size,
           int64_t k0, int64_t k1, int64_t v0, int64_t v1, int64_t kc, int64_t vc,
           cudaStream_t stream) {
  const int64_t all = tokens * heads * size, blocks = (all + 255) / 256;
  write<T><<<unsigned(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(
      (const T*)key, (const T*)value, (T*)key_cache, (T*)value_cache, (const int64_t*)slots, all,
      heads, size, block_size, k0, k1, v0, v1, kc, vc);
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
