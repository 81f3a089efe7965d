// SGLang's rotary_embedding: the kernel of its compiled library of late 2025 for heads and dtypes
// that FlashInfer's does not take, after vLLM's. One block a token; its threads walk the pairs of all
// heads of the query, then those of the key, one element at a time, with a division by the pairs of
// a head for each.
//
// Two things differ. The original rounds every product and sum to the element's type, which misses
// the tolerance of its own tests against exact results where products cancel: here they are in fp32
// and rounded once. And it takes the query's head stride for the key, too: here each has its own.

#include <algorithm>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int64_t kMaxThreads = 512;

template <typename T>
struct Heads {
  T* data;
  int64_t token_stride;
  int64_t head_stride;
  int count;
};

template <typename T, bool kNeox>
__device__ __forceinline__ void rotate_pair(T* head, const T* __restrict__ cos_row, int pair,
                                            int half) {
  const int first = kNeox ? pair : 2 * pair;
  const int second = kNeox ? half + pair : 2 * pair + 1;
  const float cos = static_cast<float>(cos_row[pair]);
  const float sin = static_cast<float>(cos_row[half + pair]);
  const float x = static_cast<float>(head[first]);
  const float y = static_cast<float>(head[second]);
  head[first] = static_cast<T>(x * cos - y * sin);
  head[second] = static_cast<T>(y * cos + x * sin);
}

template <typename T, bool kNeox>
__device__ __forceinline__ void rotate_heads(const Heads<T>& heads, const T* __restrict__ cos_row,
                                             int half) {
  const int pairs = heads.count * half;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    T* head = heads.data + blockIdx.x * heads.token_stride + i / half * heads.head_stride;
    rotate_pair<T, kNeox>(head, cos_row, i % half, half);
  }
}

template <typename T, bool kNeox>
__global__ void rotary_embedding_kernel(const int64_t* __restrict__ positions, Heads<T> query,
                                        Heads<T> key, const T* __restrict__ cos_sin_cache,
                                        int rot_dim) {
  const int half = rot_dim / 2;
  const T* cos_row = cos_sin_cache + positions[blockIdx.x] * rot_dim;
  rotate_heads<T, kNeox>(query, cos_row, half);
  if (key.data != nullptr) rotate_heads<T, kNeox>(key, cos_row, half);
}

template <typename T>
cudaError_t launch(const void* positions, const Heads<T>& query, const Heads<T>& key,
                   const void* cos_sin_cache, int64_t tokens, int64_t rot_dim, bool is_neox,
                   cudaStream_t stream) {
  const int threads = static_cast<int>(std::min(query.count * rot_dim / 2, kMaxThreads));
  const auto kernel = is_neox ? rotary_embedding_kernel<T, true> : rotary_embedding_kernel<T, false>;
  kernel<<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
      static_cast<const int64_t*>(positions), query, key, static_cast<const T*>(cos_sin_cache),
      static_cast<int>(rot_dim));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t rotary_embedding(const void* positions, void* query, void* key,
                                        const void* cos_sin_cache, int64_t tokens, int64_t heads,
                                        int64_t kv_heads, int64_t head_size, int64_t rot_dim,
                                        int64_t max_position, int64_t query_stride_0,
                                        int64_t query_stride_1, int64_t key_stride_0,
                                        int64_t key_stride_1, bool is_neox, int dtype,
                                        cudaStream_t stream) {
  const auto with = [&](auto zero) {
    using T = decltype(zero);
    const Heads<T> q{static_cast<T*>(query), query_stride_0, query_stride_1,
                     static_cast<int>(heads)};
    const Heads<T> k{static_cast<T*>(key), key_stride_0, key_stride_1, static_cast<int>(kv_heads)};
    return launch(positions, q, k, cos_sin_cache, tokens, rot_dim, is_neox, stream);
  };
  switch (dtype) {
    case 0: return with(float{});
    case 1: return with(__half{});
    case 2: return with(__nv_bfloat16{});
    default: return cudaErrorInvalidValue;
  }
}
