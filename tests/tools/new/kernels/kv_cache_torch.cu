// Keys and values written into pages by slot: strided inputs, a cache of five axes.
#include <ATen/cuda/CUDAContext.h>
#include <torch/all.h>

#include <string>

template <typename scalar_t>
__global__ void reshape_and_cache_kernel(
    const scalar_t* __restrict__ key,    // [num_tokens, num_heads, head_size]
    const scalar_t* __restrict__ value,  // [num_tokens, num_heads, head_size]
    scalar_t* __restrict__ key_cache,    // [num_blocks, num_heads, head_size/x, block_size, x]
    scalar_t* __restrict__ value_cache,  // [num_blocks, num_heads, head_size, block_size]
    const int64_t* __restrict__ slot_mapping,  // [num_tokens]
    const int64_t key_stride, const int64_t value_stride, const int num_heads, const int head_size,
    const int block_size, const int x) {
  const int64_t slot = slot_mapping[blockIdx.x];
  if (slot < 0) return;
  const int64_t page = slot / block_size, at = slot % block_size;
  for (int i = threadIdx.x; i < num_heads * head_size; i += blockDim.x) {
    const int head = i / head_size, place = i % head_size;
    const int64_t k = (((page * num_heads + head) * (head_size / x) + place / x) * block_size + at);
    key_cache[k * x + place % x] = key[blockIdx.x * key_stride + i];
    value_cache[((page * num_heads + head) * head_size + place) * block_size + at] =
        value[blockIdx.x * value_stride + i];
  }
}

#define WRITE_PAGES(T)                                                               \
  reshape_and_cache_kernel<T><<<grid, block, 0, stream>>>(                           \
      reinterpret_cast<T*>(key.data_ptr()), reinterpret_cast<T*>(value.data_ptr()), \
      reinterpret_cast<T*>(key_cache.data_ptr()),                                    \
      reinterpret_cast<T*>(value_cache.data_ptr()), slot_mapping.data_ptr<int64_t>(), \
      key_stride, value_stride, num_heads, head_size, block_size, x);

void reshape_and_cache(torch::Tensor& key, torch::Tensor& value, torch::Tensor& key_cache,
                       torch::Tensor& value_cache, torch::Tensor& slot_mapping,
                       const std::string& kv_cache_dtype) {
  int num_tokens = slot_mapping.size(0);
  int num_heads = key.size(1);
  int head_size = key.size(2);
  int block_size = key_cache.size(3);
  int x = key_cache.size(4);
  int key_stride = key.stride(0);
  int value_stride = value.stride(0);
  dim3 grid(num_tokens);
  dim3 block(std::min(num_heads * head_size, 512));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  TORCH_CHECK(kv_cache_dtype == "auto");
  if (key.dtype() == at::ScalarType::Half) {
    reshape_and_cache_kernel<__half><<<grid, block, 0, stream>>>(
        reinterpret_cast<__half*>(key.data_ptr()), reinterpret_cast<__half*>(value.data_ptr()),
        reinterpret_cast<__half*>(key_cache.data_ptr()),
        reinterpret_cast<__half*>(value_cache.data_ptr()), slot_mapping.data_ptr<int64_t>(),
        key_stride, value_stride, num_heads, head_size, block_size, x);
  } else if (key.dtype() == at::ScalarType::BFloat16) {
    WRITE_PAGES(__nv_bfloat16)
  }
}

TORCH_LIBRARY(cache_ops, m) {
  m.def(
      "reshape_and_cache(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache,"
      " Tensor slot_mapping, str kv_cache_dtype) -> ()");
  m.impl("reshape_and_cache", torch::kCUDA, &reshape_and_cache);
}
