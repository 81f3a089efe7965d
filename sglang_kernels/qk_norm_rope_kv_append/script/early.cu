// Norm, rotation and append in one launch, programmatic. A head has as many lanes as 16-byte loads; of its
// partner in the rotation a lane gets the values by a shuffle. Weights are read before the wait for what
// ran before, position and slot first after it: where a result goes is known before the norm is.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 128;
constexpr int kVector = 8;
constexpr unsigned kAll = 0xffffffffu;

using T = __nv_bfloat16;

template <typename C, typename I>
struct Call {
  T* query;
  T* key;
  const T* value;
  C* k_cache;
  C* v_cache;
  const T* q_weight;
  const T* k_weight;
  const float* cos_sin_cache;
  const I* positions;
  const I* slots;
  const float* k_scale;
  const float* v_scale;
  int64_t query_stride, key_stride, value_stride, k_stride, v_stride;
  int heads, kv_heads, page_bits;
  float eps;
};

__device__ __forceinline__ void to_floats(float (&values)[kVector], const uint4& bits) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// An index, loaded where it is written: the compiler would put it off until it is used. Not by
// ld.global.nc, which the assembler may move before the wait.
__device__ __forceinline__ int64_t at_once(const int32_t* address) {
  int32_t index;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(index) : "l"(address) : "memory");
  return index;
}

__device__ __forceinline__ int64_t at_once(const int64_t* address) {
  int64_t index;
  asm volatile("ld.global.s64 %0, [%1];" : "=l"(index) : "l"(address) : "memory");
  return index;
}

__device__ __forceinline__ void load(float (&values)[kVector], const float* address) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const float4 four = reinterpret_cast<const float4*>(address)[part];
    values[4 * part] = four.x;
    values[4 * part + 1] = four.y;
    values[4 * part + 2] = four.z;
    values[4 * part + 3] = four.w;
  }
}

__device__ __forceinline__ void keep(T* address, const float (&values)[kVector]) {
  uint4 bits;
  __nv_bfloat162* pairs = reinterpret_cast<__nv_bfloat162*>(&bits);
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
  *reinterpret_cast<uint4*>(address) = bits;
}

__device__ __forceinline__ void keep(__nv_fp8_e4m3* address, const float (&values)[kVector]) {
  uint2 bits;
  __nv_fp8x2_e4m3* pairs = reinterpret_cast<__nv_fp8x2_e4m3*>(&bits);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = __nv_fp8x2_e4m3(make_float2(values[2 * i], values[2 * i + 1]));
  }
  *reinterpret_cast<uint2*>(address) = bits;
}

// A block has some heads of a token: its x the token, its y which heads.
template <int kDim, typename C, typename I>
__global__ void __launch_bounds__(kThreads) append_kernel(Call<C, I> call) {
  constexpr int kLanes = kDim / kVector;
  constexpr int kHeads = kThreads / kLanes;
  const int64_t token = blockIdx.x;
  const int lane = threadIdx.x % kLanes;
  const int at = lane * kVector;
  const int every = call.heads + 2 * call.kv_heads;
  const int head = blockIdx.y * kHeads + threadIdx.x / kLanes;
  const bool of_query = head < call.heads;
  const bool of_value = head >= call.heads + call.kv_heads;
  // Beyond the last head that is read again, and not written.
  const int own = min(head, every - 1) - (of_query ? 0 : call.heads + (of_value ? call.kv_heads : 0));
  T* place = of_query ? call.query + token * call.query_stride : call.key + token * call.key_stride;
  const T* from = (of_value ? call.value + token * call.value_stride : place) + own * kDim + at;
  const uint4 scales =
      *reinterpret_cast<const uint4*>((of_query ? call.q_weight : call.k_weight) + at);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int64_t position = at_once(call.positions + token);
  const int64_t slot = at_once(call.slots + token);
  const uint4 bits = *reinterpret_cast<const uint4*>(from);
  float x[kVector], weight[kVector], cos[kVector], sin[kVector];
  const float* angles = call.cos_sin_cache + position * kDim + at % (kDim / 2);
  load(cos, angles);
  load(sin, angles + kDim / 2);
  to_floats(x, bits);
  to_floats(weight, scales);

  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVector; ++i) squares += x[i] * x[i];
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    squares += __shfl_xor_sync(kAll, squares, offset);
  }
  const float scale = rsqrtf(squares / kDim + call.eps);
  const bool first = lane < kLanes / 2;
  float turned[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const float normed = x[i] * scale * weight[i];
    const float other = __shfl_xor_sync(kAll, normed, kLanes / 2);
    turned[i] = normed * cos[i] + (first ? -other : other) * sin[i];
  }
  if (head >= every) return;
  if (!of_value) keep(place + own * kDim + at, turned);
  if (of_query) return;
  const int64_t page = slot >> call.page_bits;
  const int row = static_cast<int>(slot) & ((1 << call.page_bits) - 1);
  if (sizeof(C) == 1) {
    const float* divisor = of_value ? call.v_scale : call.k_scale;
    const float inverse = divisor == nullptr ? 1.0f : 1.0f / *divisor;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      turned[i] *= inverse;
      x[i] *= inverse;
    }
  }
  const int64_t column = (row * call.kv_heads + own) * kDim + at;
  if (of_value) {
    keep(call.v_cache + page * call.v_stride + column, x);
  } else {
    keep(call.k_cache + page * call.k_stride + column, turned);
  }
}

template <int kDim, typename C, typename I>
cudaError_t launch(const Call<C, I>& call, int64_t tokens, cudaStream_t stream) {
  constexpr int kHeads = kThreads / (kDim / kVector);
  const int every = call.heads + 2 * call.kv_heads;
  const dim3 grid(static_cast<unsigned>(tokens), (every + kHeads - 1) / kHeads);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &early;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, append_kernel<kDim, C, I>, call);
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
  const auto with = [&](auto of_cache, auto of_index) -> cudaError_t {
    using C = decltype(of_cache);
    using I = decltype(of_index);
    const Call<C, I> call{static_cast<T*>(query),
                          static_cast<T*>(key),
                          static_cast<const T*>(value),
                          static_cast<C*>(k_cache),
                          static_cast<C*>(v_cache),
                          static_cast<const T*>(q_weight),
                          static_cast<const T*>(k_weight),
                          static_cast<const float*>(cos_sin_cache),
                          static_cast<const I*>(positions),
                          static_cast<const I*>(slots),
                          static_cast<const float*>(k_scale),
                          static_cast<const float*>(v_scale),
                          query_stride,
                          key_stride,
                          value_stride,
                          k_cache_stride,
                          v_cache_stride,
                          static_cast<int>(heads),
                          static_cast<int>(kv_heads),
                          page_size == 1 ? 0 : page_size == 16 ? 4 : 6,
                          eps};
    switch (head_dim) {
      case 64: return launch<64>(call, tokens, stream);
      case 128: return launch<128>(call, tokens, stream);
      case 256: return launch<256>(call, tokens, stream);
      default: return cudaErrorInvalidValue;
    }
  };
  if (c_dtype == 2) return i_dtype == 7 ? with(T{}, int32_t{}) : with(T{}, int64_t{});
  if (c_dtype != 3) return cudaErrorInvalidValue;
  return i_dtype == 7 ? with(__nv_fp8_e4m3{}, int32_t{}) : with(__nv_fp8_e4m3{}, int64_t{});
}
