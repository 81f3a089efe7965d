// What SGLang ran before attention in late 2025, two kernels in sequence: FlashInfer's rotation of
// query and key by a table in fp32, then the write of key and value into the paged cache, as SGLang's
// compiled library launches them.
//
// Rotation: a thread holds one vector of a head, and reads the vector it is paired with from memory,
// too. With many tokens a thread goes through all heads one after the other; with few each head has
// blocks of its own. Two things differ: the original lets a lane store while its partner may still
// read, here the lanes of a head meet before; and for pairs of neighbours it loads twice the cosines
// and sines that it uses, beyond the end of the table in its last row.
//
// Write: a warp a token copies its row of key and of value, 8 bytes a lane and step; where a row is
// no multiple of 256 bytes, half of the warp takes the key and half the value. The original wants the
// strides of value and key alike, and those of both caches; here each has its own.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kPart = 8;
constexpr int kRopeThreads = 128;
constexpr int kWriteThreads = 256;

template <typename T>
struct Heads {
  T* data;
  int64_t token_stride;
  int64_t head_stride;
  int count;
};

template <typename T>
__device__ __forceinline__ T* head_of(const Heads<T>& heads, unsigned token, unsigned head) {
  return heads.data + token * heads.token_stride + head * heads.head_stride;
}

__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void from_float(__half& to, float value) { to = __float2half_rn(value); }
__device__ __forceinline__ void from_float(__nv_bfloat16& to, float value) {
  to = __float2bfloat16_rn(value);
}

template <int kSize, typename T>
__device__ __forceinline__ void load(float (&values)[kSize], const T* address) {
#pragma unroll
  for (int part = 0; part < kSize / kPart; ++part) {
    const uint4 bits = reinterpret_cast<const uint4*>(address)[part];
    const T* items = reinterpret_cast<const T*>(&bits);
#pragma unroll
    for (int i = 0; i < kPart; ++i) values[part * kPart + i] = to_float(items[i]);
  }
}

template <int kSize>
__device__ __forceinline__ void load(float (&values)[kSize], const float* address) {
#pragma unroll
  for (int part = 0; part < kSize / 4; ++part) {
    const float4 four = reinterpret_cast<const float4*>(address)[part];
    values[part * 4] = four.x;
    values[part * 4 + 1] = four.y;
    values[part * 4 + 2] = four.z;
    values[part * 4 + 3] = four.w;
  }
}

template <int kSize, typename T>
__device__ __forceinline__ void store(T* address, const float (&values)[kSize]) {
#pragma unroll
  for (int part = 0; part < kSize / kPart; ++part) {
    uint4 bits;
    T* items = reinterpret_cast<T*>(&bits);
#pragma unroll
    for (int i = 0; i < kPart; ++i) from_float(items[i], values[part * kPart + i]);
    reinterpret_cast<uint4*>(address)[part] = bits;
  }
}

// The cosines and sines of a thread's vector: one for each element, or for each pair of neighbours.
template <int kSize, bool kNeox>
struct Turn {
  static constexpr int kAngles = kNeox ? kSize : kSize / 2;
  float cos[kAngles];
  float sin[kAngles];

  __device__ __forceinline__ Turn(const float* row, int at, int rotary_dim) {
    const int half = rotary_dim / 2;
    if (at >= rotary_dim) return;
    const int angle = kNeox ? at % half : at / 2;
    load(cos, row + angle);
    load(sin, row + half + angle);
  }
};

template <typename T, int kSize, bool kNeox>
__device__ __forceinline__ void rotate(T* head, const Turn<kSize, kNeox>& turn, int rotary_dim) {
  const int at = threadIdx.x * kSize, half = rotary_dim / 2;
  float x[kSize];
  load(x, head + at);
  if (at < rotary_dim) {
    if constexpr (kNeox) {
      const bool first = at < half;
      float other[kSize];
      load(other, head + (first ? at + half : at - half));
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        x[i] = x[i] * turn.cos[i] + (first ? -other[i] : other[i]) * turn.sin[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kSize; i += 2) {
        const float even = x[i], odd = x[i + 1];
        x[i] = even * turn.cos[i / 2] - odd * turn.sin[i / 2];
        x[i + 1] = odd * turn.cos[i / 2] + even * turn.sin[i / 2];
      }
    }
  }
  const unsigned lanes = blockDim.x, lane = (threadIdx.y * lanes + threadIdx.x) % kWarp;
  __syncwarp((0xffffffffu >> (kWarp - lanes)) << (lane / lanes * lanes));
  store(head + at, x);
}

template <typename T, int kSize, bool kNeox, bool kAllHeads>
__global__ void rope_kernel(Heads<T> query, Heads<T> key, const float* __restrict__ cos_sin_cache,
                            const int64_t* __restrict__ positions, unsigned tokens,
                            int rotary_dim) {
  const unsigned token = blockIdx.x * blockDim.y + threadIdx.y;
  if (token >= tokens) return;
  const float* row = cos_sin_cache + positions[token] * rotary_dim;
  const Turn<kSize, kNeox> turn(row, threadIdx.x * kSize, rotary_dim);
  if constexpr (kAllHeads) {
#pragma unroll 1
    for (int head = 0; head < query.count; ++head) {
      rotate(head_of(query, token, head), turn, rotary_dim);
    }
#pragma unroll 1
    for (int head = 0; head < key.count; ++head) {
      rotate(head_of(key, token, head), turn, rotary_dim);
    }
  } else {
    const int head = blockIdx.y;
    rotate(head < query.count ? head_of(query, token, head)
                              : head_of(key, token, head - query.count),
           turn, rotary_dim);
  }
}

struct Rope {
  const float* cos_sin_cache;
  const int64_t* positions;
  int64_t tokens;
  int head_dim;
  int rotary_dim;
  cudaStream_t stream;
};

template <typename T, int kSize, bool kNeox>
cudaError_t launch_rope(const Heads<T>& query, const Heads<T>& key, const Rope& rope) {
  const dim3 block(rope.head_dim / kSize, kRopeThreads / (rope.head_dim / kSize));
  const unsigned blocks = static_cast<unsigned>((rope.tokens + block.y - 1) / block.y);
  int device = 0, sms = 0, resident = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const auto all_heads = rope_kernel<T, kSize, kNeox, true>;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, all_heads, kRopeThreads, 0);
  const bool many = blocks >= static_cast<unsigned>(resident * sms);
  const auto kernel = many ? all_heads : rope_kernel<T, kSize, kNeox, false>;
  const dim3 grid(blocks, many ? 1 : query.count + key.count);
  kernel<<<grid, block, 0, rope.stream>>>(query, key, rope.cos_sin_cache, rope.positions,
                                          static_cast<unsigned>(rope.tokens), rope.rotary_dim);
  return cudaGetLastError();
}

struct Rows {
  const uint64_t* from;
  uint64_t* to;
  int64_t from_stride;
  int64_t to_stride;
};

// Rows in words of 8 bytes. A step copies 256 bytes of both, or 128 of each side by side.
template <bool kBoth>
__global__ void write_kernel(Rows key, Rows value, const int64_t* __restrict__ cache_loc,
                             int64_t tokens, int steps) {
  const int64_t token = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (token >= tokens) return;
  const int64_t slot = cache_loc[token];
  if constexpr (kBoth) {
    for (int step = 0; step < steps; ++step) {
      const int at = step * kWarp + lane;
      key.to[slot * key.to_stride + at] = key.from[token * key.from_stride + at];
      value.to[slot * value.to_stride + at] = value.from[token * value.from_stride + at];
    }
  } else {
    const Rows rows = lane < kWarp / 2 ? key : value;
    for (int step = 0; step < steps; ++step) {
      const int at = step * (kWarp / 2) + lane % (kWarp / 2);
      rows.to[slot * rows.to_stride + at] = rows.from[token * rows.from_stride + at];
    }
  }
}

template <typename T>
Rows rows_of(const void* from, void* to, int64_t from_stride, int64_t to_stride) {
  constexpr int64_t kItems = sizeof(uint64_t) / sizeof(T);
  return {static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to), from_stride / kItems,
          to_stride / kItems};
}

cudaError_t launch_write(const Rows& key, const Rows& value, const void* cache_loc, int64_t tokens,
                         int64_t row_bytes, cudaStream_t stream) {
  constexpr int64_t kWarps = kWriteThreads / kWarp, kLong = 256, kShort = 128;
  const bool both = row_bytes % kLong == 0;
  const auto kernel = both ? write_kernel<true> : write_kernel<false>;
  kernel<<<static_cast<unsigned>((tokens + kWarps - 1) / kWarps), kWriteThreads, 0, stream>>>(
      key, value, static_cast<const int64_t*>(cache_loc), tokens,
      static_cast<int>(row_bytes / (both ? kLong : kShort)));
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_rope(const Heads<T>& query, const Heads<T>& key, const Rope& rope, bool is_neox) {
  if (rope.head_dim <= kWarp * kPart) {
    return is_neox ? launch_rope<T, kPart, true>(query, key, rope)
                   : launch_rope<T, kPart, false>(query, key, rope);
  }
  return is_neox ? launch_rope<T, 2 * kPart, true>(query, key, rope)
                 : launch_rope<T, 2 * kPart, false>(query, key, rope);
}

}  // namespace

extern "C" cudaError_t rope_and_kv_write(
    const void* positions, void* query, void* key, const void* value, const void* cos_sin_cache,
    void* k_cache, void* v_cache, const void* cache_loc, int64_t tokens, int64_t heads,
    int64_t kv_heads, int64_t head_dim, int64_t rotary_dim, int64_t max_position, int64_t slots,
    int64_t query_stride_0, int64_t query_stride_1, int64_t key_stride, int64_t value_stride,
    int64_t k_cache_stride, int64_t v_cache_stride, bool is_neox, int dtype, cudaStream_t stream) {
  const Rope rope{static_cast<const float*>(cos_sin_cache), static_cast<const int64_t*>(positions),
                  tokens, static_cast<int>(head_dim), static_cast<int>(rotary_dim), stream};
  const auto with = [&](auto zero) -> cudaError_t {
    using T = decltype(zero);
    const Heads<T> q{static_cast<T*>(query), query_stride_0, query_stride_1,
                     static_cast<int>(heads)};
    const Heads<T> k{static_cast<T*>(key), key_stride, head_dim, static_cast<int>(kv_heads)};
    if (const cudaError_t error = launch_rope(q, k, rope, is_neox)) return error;
    return launch_write(rows_of<T>(key, k_cache, key_stride, k_cache_stride),
                        rows_of<T>(value, v_cache, value_stride, v_cache_stride), cache_loc,
                        tokens, kv_heads * head_dim * static_cast<int64_t>(sizeof(T)), stream);
  };
  switch (dtype) {
    case 1: return with(__half{});
    case 2: return with(__nv_bfloat16{});
    default: return cudaErrorInvalidValue;
  }
}
