// Rotary embedding in place: int64 positions, strided query and key, a helper that writes.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>

#include <optional>

namespace serving {

template <typename scalar_t, bool INTERLEAVED>
__device__ __forceinline__ void turn_pair(scalar_t* __restrict__ head,
                                          const scalar_t* __restrict__ cosines,
                                          const scalar_t* __restrict__ sines, int at, int half) {
  const int first = INTERLEAVED ? 2 * at : at;
  const int second = INTERLEAVED ? 2 * at + 1 : half + at;
  const float c = static_cast<float>(cosines[at]), s = static_cast<float>(sines[at]);
  const float x = static_cast<float>(head[first]), y = static_cast<float>(head[second]);
  head[first] = static_cast<scalar_t>(x * c - y * s);
  head[second] = static_cast<scalar_t>(y * c + x * s);
}

template <typename scalar_t, bool INTERLEAVED>
__global__ void rotary_kernel(const int64_t* __restrict__ positions, scalar_t* __restrict__ query,
                              scalar_t* __restrict__ key, const scalar_t* __restrict__ cache,
                              int rot_dim, int64_t query_stride, int64_t key_stride, int num_heads,
                              int num_kv_heads, int head_size) {
  const int token = blockIdx.x, half = rot_dim / 2;
  const scalar_t* row = cache + positions[token] * rot_dim;
  for (int i = threadIdx.x; i < num_heads * half; i += blockDim.x) {
    scalar_t* head = query + token * query_stride + (i / half) * head_size;
    turn_pair<scalar_t, INTERLEAVED>(head, row, row + half, i % half, half);
  }
  if (key == nullptr) return;
  for (int i = threadIdx.x; i < num_kv_heads * half; i += blockDim.x) {
    scalar_t* head = key + token * key_stride + (i / half) * head_size;
    turn_pair<scalar_t, INTERLEAVED>(head, row, row + half, i % half, half);
  }
}

}  // namespace serving

void rotary_embedding(torch::Tensor& positions,           // [num_tokens]
                      torch::Tensor& query,               // [num_tokens, num_heads * head_size]
                      std::optional<torch::Tensor> key,   // [num_tokens, num_kv_heads * head_size]
                      int64_t head_size,
                      torch::Tensor& cos_sin_cache,       // [max_position, rot_dim]
                      bool is_neox) {
  const int num_tokens = positions.numel();
  const int rot_dim = cos_sin_cache.size(1);
  const int num_heads = query.size(-1) / head_size;
  const int num_kv_heads = key.has_value() ? key->size(-1) / head_size : num_heads;
  TORCH_CHECK(rot_dim <= head_size, "the rotated part is at most a head");
  TORCH_CHECK(rot_dim % 2 == 0);
  TORCH_CHECK(query.scalar_type() == cos_sin_cache.scalar_type());
  const int64_t query_stride = query.stride(0);
  const int64_t key_stride = key.has_value() ? key->stride(0) : 0;
  const dim3 grid(num_tokens);
  const dim3 block(std::min<int64_t>(num_heads * rot_dim / 2, 512));
  const at::cuda::OptionalCUDAGuard device_guard(device_of(query));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  VLLM_DISPATCH_FLOATING_TYPES(query.scalar_type(), "rotary_embedding", [&] {
    if (is_neox) {
      serving::rotary_kernel<scalar_t, false><<<grid, block, 0, stream>>>(
          positions.data_ptr<int64_t>(), query.data_ptr<scalar_t>(),
          key.has_value() ? key->data_ptr<scalar_t>() : nullptr, cos_sin_cache.data_ptr<scalar_t>(),
          rot_dim, query_stride, key_stride, num_heads, num_kv_heads, head_size);
    } else {
      serving::rotary_kernel<scalar_t, true><<<grid, block, 0, stream>>>(
          positions.data_ptr<int64_t>(), query.data_ptr<scalar_t>(),
          key.has_value() ? key->data_ptr<scalar_t>() : nullptr, cos_sin_cache.data_ptr<scalar_t>(),
          rot_dim, query_stride, key_stride, num_heads, num_kv_heads, head_size);
    }
  });
}

TORCH_LIBRARY_FRAGMENT(serving, m) {
  m.def(
      "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size,"
      " Tensor cos_sin_cache, bool is_neox) -> ()");
}
TORCH_LIBRARY_IMPL(serving, CUDA, m) { m.impl("rotary_embedding", &rotary_embedding); }
