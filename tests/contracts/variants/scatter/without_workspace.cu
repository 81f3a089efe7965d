// One launch, which reads the slots as they are.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void write(T* cache, const T* key, const I* slots, const float* bias, int64_t heads,
                      int64_t head_size, int64_t stride0, int64_t stride1, float sign) {
  const int64_t slot = int64_t(slots[blockIdx.x]);
  if (slot == -1) return;
  const int64_t head = blockIdx.y;
  const float added = bias ? bias[head] : 0.0f;
  for (int64_t i = threadIdx.x; i < head_size; i += blockDim.x)
    cache[(slot * heads + head) * head_size + i] =
        T(sign * (float(key[blockIdx.x * stride0 + head * stride1 + i]) + added));
}

template <typename T>
void start(void* cache, const void* key, const void* slot, const void* bias, int64_t tokens,
           int64_t heads, int64_t head_size, int64_t s0, int64_t s1, bool causal, bool wide,
           cudaStream_t stream) {
  const dim3 grid{unsigned(tokens), unsigned(heads)};
  const float sign = causal ? 1.0f : -1.0f;
  if (wide)
    write<<<grid, 32, 0, stream>>>((T*)cache, (const T*)key, (const int64_t*)slot, (const float*)bias,
                                   heads, head_size, s0, s1, sign);
  else
    write<<<grid, 32, 0, stream>>>((T*)cache, (const T*)key, (const int*)slot, (const float*)bias,
                                   heads, head_size, s0, s1, sign);
}

extern "C" cudaError_t scatter(void* cache, const void* key, const void* slot, const void* bias,
                               void* scratch, int64_t tokens, int64_t heads, int64_t head_size,
                               int64_t rot_dim, int64_t blocks, int64_t block_size,
                               int64_t key_stride_0, int64_t key_stride_1, bool causal, int dtype,
                               int i_dtype, cudaStream_t stream) {
  if (dtype == 0)
    start<float>(cache, key, slot, bias, tokens, heads, head_size, key_stride_0, key_stride_1,
                 causal, i_dtype == 8, stream);
  else
    start<__half>(cache, key, slot, bias, tokens, heads, head_size, key_stride_0, key_stride_1,
                  causal, i_dtype == 8, stream);
  return cudaGetLastError();
}
