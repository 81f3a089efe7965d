// A launch for the key and one for the value; a block a token and head.
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void write(const T* source, T* cache, const int64_t* slots, int64_t s0, int64_t s1,
                      int64_t stride, int64_t size, int64_t block_size) {
  const int64_t token = blockIdx.x, head = blockIdx.y, slot = slots[token];
  if (slot == -1) return;
  T* target = cache + slot / block_size * stride + (slot % block_size * gridDim.y + head) * size;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    target[i] = source[token * s0 + head * s1 + i];
}

extern "C" cudaError_t reshape_and_cache(const void* key, const void* value, void* key_cache,
                                         void* value_cache, const void* slot_mapping,
                                         int64_t tokens, int64_t heads, int64_t head_size,
                                         int64_t blocks, int64_t block_size, int64_t key_stride_0,
                                         int64_t key_stride_1, int64_t value_stride_0,
                                         int64_t value_stride_1, int64_t key_cache_stride,
                                         int64_t value_cache_stride, int dtype,
                                         cudaStream_t stream) {
  const dim3 grid{unsigned(tokens), unsigned(heads)};
  const auto* slots = static_cast<const int64_t*>(slot_mapping);
  if (dtype == 0) {
    write<<<grid, 128, 0, stream>>>((const float*)key, (float*)key_cache, slots, key_stride_0,
                                    key_stride_1, key_cache_stride, head_size, block_size);
    write<<<grid, 128, 0, stream>>>((const float*)value, (float*)value_cache, slots, value_stride_0,
                                    value_stride_1, value_cache_stride, head_size, block_size);
  } else {
    write<<<grid, 128, 0, stream>>>((const short*)key, (short*)key_cache, slots, key_stride_0,
                                    key_stride_1, key_cache_stride, head_size, block_size);
    write<<<grid, 128, 0, stream>>>((const short*)value, (short*)value_cache, slots, value_stride_0,
                                    value_stride_1, value_cache_stride, head_size, block_size);
  }
  return cudaGetLastError();
}
