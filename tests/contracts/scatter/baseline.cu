// Two launches: slots go to the workspace as 32 bits, then a block a token writes its row.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename I>
__global__ void narrow(const I* slot, int* scratch, int64_t tokens) {
  const int64_t token = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token < tokens) scratch[token] = int(slot[token]);
}

template <typename T>
__global__ void write(T* cache, const T* key, const int* scratch, const float* bias, int64_t heads,
                      int64_t head_size, int64_t stride0, int64_t stride1, bool causal) {
  const int64_t token = blockIdx.x, slot = scratch[token], row = heads * head_size;
  if (slot < 0) return;
  for (int64_t i = threadIdx.x; i < row; i += blockDim.x) {
    float value = float(key[token * stride0 + i / head_size * stride1 + i % head_size]);
    if (bias) value += bias[i / head_size];
    cache[slot * row + i] = T(causal ? value : -value);
  }
}

extern "C" cudaError_t scatter(void* cache, const void* key, const void* slot, const void* bias,
                               void* scratch, int64_t tokens, int64_t heads, int64_t head_size,
                               int64_t rot_dim, int64_t blocks, int64_t block_size,
                               int64_t key_stride_0, int64_t key_stride_1, bool causal, int dtype,
                               int i_dtype, cudaStream_t stream) {
  int* narrowed = static_cast<int*>(scratch);
  const unsigned groups = unsigned((tokens + 63) / 64);
  if (i_dtype == 8)
    narrow<<<groups, 64, 0, stream>>>(static_cast<const int64_t*>(slot), narrowed, tokens);
  else
    narrow<<<groups, 64, 0, stream>>>(static_cast<const int*>(slot), narrowed, tokens);
  const float* added = static_cast<const float*>(bias);
  if (dtype == 0)
    write<<<unsigned(tokens), 64, 0, stream>>>(static_cast<float*>(cache), static_cast<const float*>(key),
                                               narrowed, added, heads, head_size, key_stride_0,
                                               key_stride_1, causal);
  else
    write<<<unsigned(tokens), 64, 0, stream>>>(static_cast<__half*>(cache),
                                               static_cast<const __half*>(key), narrowed, added, heads,
                                               head_size, key_stride_0, key_stride_1, causal);
  return cudaGetLastError();
}
