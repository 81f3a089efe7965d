// What engines run for Qwen 3 between the product of qkv and attention, three kernels in sequence: the
// norm of query and key, a warp a head; the rotation by a table in fp32, a thread four pairs; then key
// and value into the cache, a warp a token. Query and key are in place, and rounded to bfloat16 after
// each of the first two.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kPairs = 4;    // of a thread that rotates
constexpr int kVector = 8;   // of bfloat16 in 16 bytes
constexpr float kLargest = 448.0f;

using T = __nv_bfloat16;

struct Heads {
  T* data;
  int64_t stride;
  int count;
};

struct Rows {
  Heads query, key;
  int64_t tokens;

  __device__ __forceinline__ int both() const { return query.count + key.count; }

  // A head of a token, the key's behind the query's.
  __device__ __forceinline__ T* at(int64_t token, int head, int dim) const {
    return head < query.count
               ? query.data + token * query.stride + head * dim
               : key.data + token * key.stride + (head - query.count) * dim;
  }
};

template <int kSize>
__device__ __forceinline__ void load(float (&values)[kSize], const T* address) {
  T items[kSize];
  if constexpr (kSize == 8) {
    *reinterpret_cast<uint4*>(items) = *reinterpret_cast<const uint4*>(address);
  } else if constexpr (kSize == 4) {
    *reinterpret_cast<uint2*>(items) = *reinterpret_cast<const uint2*>(address);
  } else {
    *reinterpret_cast<uint32_t*>(items) = *reinterpret_cast<const uint32_t*>(address);
  }
#pragma unroll
  for (int i = 0; i < kSize; ++i) values[i] = __bfloat162float(items[i]);
}

template <int kSize>
__device__ __forceinline__ void store(T* address, const float (&values)[kSize]) {
  T items[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) items[i] = __float2bfloat16_rn(values[i]);
  if constexpr (kSize == 8) {
    *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(items);
  } else if constexpr (kSize == 4) {
    *reinterpret_cast<uint2*>(address) = *reinterpret_cast<const uint2*>(items);
  } else {
    *reinterpret_cast<uint32_t*>(address) = *reinterpret_cast<const uint32_t*>(items);
  }
}

// Eight values of the cache, of a row whose scale is 1 / inverse.
__device__ __forceinline__ void keep(T* address, const float (&values)[kVector], float) {
  store(address, values);
}

__device__ __forceinline__ void keep(__nv_fp8_e4m3* address, const float (&values)[kVector],
                                     float inverse) {
  __nv_fp8_e4m3 codes[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) codes[i] = __nv_fp8_e4m3(values[i] * inverse);
  *reinterpret_cast<uint2*>(address) = *reinterpret_cast<const uint2*>(codes);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// Warps go through all heads of query and key.
template <int kDim>
__global__ void __launch_bounds__(kThreads) norm_kernel(Rows rows, const T* __restrict__ q_weight,
                                                        const T* __restrict__ k_weight, float eps) {
  constexpr int kSize = kDim / kWarp;
  const int both = rows.both();
  const int at = threadIdx.x % kWarp * kSize;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / kWarp);
  int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  for (; row < rows.tokens * both; row += warps) {
    const int head = static_cast<int>(row % both);
    const bool of_query = head < rows.query.count;
    T* place = rows.at(row / both, head, kDim) + at;
    float x[kSize], w[kSize];
    load(x, place);
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares += x[i] * x[i];
    const float scale = rsqrtf(warp_sum(squares) / kDim + eps);
    load(w, (of_query ? q_weight : k_weight) + at);
#pragma unroll
    for (int i = 0; i < kSize; ++i) x[i] = x[i] * scale * w[i];
    store(place, x);
  }
}

template <typename I>
__global__ void __launch_bounds__(kThreads) rope_kernel(Rows rows,
                                                        const float* __restrict__ cos_sin_cache,
                                                        const I* __restrict__ positions,
                                                        int head_dim) {
  const int half = head_dim / 2;
  const int of_head = half / kPairs;
  const int both = rows.both();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t row = thread / of_head;
  if (row >= rows.tokens * both) return;
  const int at = static_cast<int>(thread % of_head) * kPairs;
  const int64_t token = row / both;
  T* head = rows.at(token, static_cast<int>(row % both), head_dim);
  const float* angles = cos_sin_cache + static_cast<int64_t>(positions[token]) * head_dim;
  const float4 cosines = *reinterpret_cast<const float4*>(angles + at);
  const float4 sines = *reinterpret_cast<const float4*>(angles + half + at);
  const float cos[kPairs] = {cosines.x, cosines.y, cosines.z, cosines.w};
  const float sin[kPairs] = {sines.x, sines.y, sines.z, sines.w};
  float x[kPairs], y[kPairs];
  load(x, head + at);
  load(y, head + half + at);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float first = x[i], second = y[i];
    x[i] = first * cos[i] - second * sin[i];
    y[i] = second * cos[i] + first * sin[i];
  }
  store(head + at, x);
  store(head + half + at, y);
}

template <typename C>
struct Cache {
  C* data;
  int64_t page_stride;
  const float* scale;
};

template <typename C>
__device__ __forceinline__ float inverse_of(const Cache<C>& cache) {
  return cache.scale == nullptr ? 1.0f : 1.0f / *cache.scale;
}

template <typename C, typename I>
__global__ void __launch_bounds__(kThreads) append_kernel(Cache<C> k_cache, Cache<C> v_cache,
                                                          Heads keys, Heads values,
                                                          const I* __restrict__ slots,
                                                          int64_t tokens, int head_dim,
                                                          int page_size) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const int width = keys.count * head_dim;
  const int64_t slot = slots[token];
  const int64_t page = slot / page_size, row = slot % page_size;
  C* new_key = k_cache.data + page * k_cache.page_stride + row * width;
  C* new_value = v_cache.data + page * v_cache.page_stride + row * width;
  const T* key = keys.data + token * keys.stride;
  const T* value = values.data + token * values.stride;
  const float of_key = inverse_of(k_cache), of_value = inverse_of(v_cache);
  for (int at = threadIdx.x % kWarp * kVector; at < width; at += kWarp * kVector) {
    float k[kVector], v[kVector];
    load(k, key + at);
    load(v, value + at);
    keep(new_key + at, k, of_key);
    keep(new_value + at, v, of_value);
  }
}

unsigned blocks_of(int64_t items, int64_t each) {
  return static_cast<unsigned>((items + each - 1) / each);
}

struct Arguments {
  Rows rows;
  Heads value;
  void* k_cache;
  void* v_cache;
  const T* q_weight;
  const T* k_weight;
  const float* cos_sin_cache;
  const void* positions;
  const void* slots;
  const float* k_scale;
  const float* v_scale;
  int64_t k_stride, v_stride;
  int head_dim, page_size;
  float eps;
  cudaStream_t stream;
};

cudaError_t launch_norm(const Arguments& a, int64_t heads) {
  int device = 0, sms = 0, resident = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const auto kernel = a.head_dim == 64    ? norm_kernel<64>
                      : a.head_dim == 128 ? norm_kernel<128>
                                          : norm_kernel<256>;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0);
  const unsigned most = static_cast<unsigned>(sms * resident);
  const unsigned wanted = blocks_of(heads, kThreads / kWarp);
  kernel<<<wanted < most ? wanted : most, kThreads, 0, a.stream>>>(a.rows, a.q_weight, a.k_weight,
                                                                   a.eps);
  return cudaGetLastError();
}

template <typename I>
cudaError_t launch_rope(const Arguments& a, int64_t heads) {
  const int64_t threads = heads * (a.head_dim / 2 / kPairs);
  rope_kernel<I><<<blocks_of(threads, kThreads), kThreads, 0, a.stream>>>(
      a.rows, a.cos_sin_cache, static_cast<const I*>(a.positions), a.head_dim);
  return cudaGetLastError();
}

template <typename C, typename I>
cudaError_t launch_append(const Arguments& a) {
  append_kernel<C, I><<<blocks_of(a.rows.tokens, kThreads / kWarp), kThreads, 0, a.stream>>>(
      Cache<C>{static_cast<C*>(a.k_cache), a.k_stride, a.k_scale},
      Cache<C>{static_cast<C*>(a.v_cache), a.v_stride, a.v_scale}, a.rows.key, a.value,
      static_cast<const I*>(a.slots), a.rows.tokens, a.head_dim, a.page_size);
  return cudaGetLastError();
}

template <typename I>
cudaError_t launch(const Arguments& a, int c_dtype) {
  const int64_t heads = a.rows.tokens * (a.rows.query.count + a.rows.key.count);
  if (const cudaError_t error = launch_norm(a, heads)) return error;
  if (const cudaError_t error = launch_rope<I>(a, heads)) return error;
  switch (c_dtype) {
    case 2: return launch_append<__nv_bfloat16, I>(a);
    case 3: return launch_append<__nv_fp8_e4m3, I>(a);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace

extern "C" cudaError_t qk_norm_rope_kv_append(
    void* query, void* key, const void* value, void* k_cache, void* v_cache, const void* q_weight,
    const void* k_weight, const void* cos_sin_cache, const void* positions, const void* slots,
    const void* k_scale, const void* v_scale, int64_t tokens, int64_t heads, int64_t kv_heads,
    int64_t head_dim, int64_t max_position, int64_t pages, int64_t page_size,
    int64_t query_stride, int64_t key_stride, int64_t value_stride, int64_t k_cache_stride,
    int64_t v_cache_stride, float eps, int dtype, int c_dtype, int i_dtype, cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  const int of_key = static_cast<int>(kv_heads);
  const Arguments arguments{
      {{static_cast<T*>(query), query_stride, static_cast<int>(heads)},
       {static_cast<T*>(key), key_stride, of_key},
       tokens},
      {const_cast<T*>(static_cast<const T*>(value)), value_stride, of_key},
      k_cache,
      v_cache,
      static_cast<const T*>(q_weight),
      static_cast<const T*>(k_weight),
      static_cast<const float*>(cos_sin_cache),
      positions,
      slots,
      static_cast<const float*>(k_scale),
      static_cast<const float*>(v_scale),
      k_cache_stride,
      v_cache_stride,
      static_cast<int>(head_dim),
      static_cast<int>(page_size),
      eps,
      stream};
  switch (i_dtype) {
    case 7: return launch<int32_t>(arguments, c_dtype);
    case 8: return launch<int64_t>(arguments, c_dtype);
    default: return cudaErrorInvalidValue;
  }
}
