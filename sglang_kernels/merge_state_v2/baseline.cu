// SGLang's merge_state_v2: the algorithm of its compiled library (September 2025, unchanged since).
// One thread per 16-byte pack of the result, 128 threads per block, a one-dimensional grid. Every
// thread finds its token and head by division, loads both log-sum-exps and computes both weights;
// the first thread of a head also writes the merged log-sum-exp.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kPackBytes = 16;
constexpr unsigned kThreads = 128;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void assign(float& target, float value) { target = value; }
__device__ __forceinline__ void assign(__half& target, float value) {
  target = __float2half_rn(value);
}
__device__ __forceinline__ void assign(__nv_bfloat16& target, float value) {
  target = __float2bfloat16_rn(value);
}

template <typename T>
struct alignas(kPackBytes) Pack {
  static constexpr int kSize = kPackBytes / static_cast<int>(sizeof(T));
  T item[kSize];
};

template <typename T>
__global__ void merge_state_kernel(T* out, float* out_lse, const T* prefix, const float* prefix_lse,
                                   const T* suffix, const float* suffix_lse, unsigned tokens,
                                   unsigned heads, unsigned head_size) {
  constexpr unsigned kSize = Pack<T>::kSize;
  const unsigned threads_per_head = head_size / kSize;
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= tokens * heads * threads_per_head) return;

  const unsigned token_head = index / threads_per_head;
  const unsigned pack = index % threads_per_head;
  const unsigned token = token_head / heads;
  const unsigned head = token_head % heads;
  const unsigned pack_offset = pack * kSize;
  const unsigned row = token * heads + head;
  // In 64 bits; the original's 32 overflow on results of more than 2^32 elements.
  const int64_t head_offset = static_cast<int64_t>(row) * static_cast<int64_t>(head_size);

  float p_lse = prefix_lse[row];
  float s_lse = suffix_lse[row];
  p_lse = isinf(p_lse) ? -INFINITY : p_lse;
  s_lse = isinf(s_lse) ? -INFINITY : s_lse;

  const float max_lse = fmaxf(p_lse, s_lse);
  const float p_se = expf(p_lse - max_lse);
  const float s_se = expf(s_lse - max_lse);
  const float total = p_se + s_se;
  const float p_scale = p_se / total;
  const float s_scale = s_se / total;

  // Always so; but it keeps the compiler from loading the values before the weights are known, as
  // it does in the original, where a small call waits for memory twice.
  if (pack_offset < head_size) {
    const uint4 p_bits = *reinterpret_cast<const uint4*>(prefix + head_offset + pack_offset);
    const uint4 s_bits = *reinterpret_cast<const uint4*>(suffix + head_offset + pack_offset);
    const Pack<T>& p = *reinterpret_cast<const Pack<T>*>(&p_bits);
    const Pack<T>& s = *reinterpret_cast<const Pack<T>*>(&s_bits);
    Pack<T> result;
#pragma unroll
    for (unsigned i = 0; i < kSize; ++i) {
      assign(result.item[i], to_float(p.item[i]) * p_scale + to_float(s.item[i]) * s_scale);
    }
    *reinterpret_cast<uint4*>(out + head_offset + pack_offset) =
        *reinterpret_cast<const uint4*>(&result);
  }

  if (pack == 0) out_lse[row] = logf(total) + max_lse;
}

template <typename T>
cudaError_t launch(const void* v_a, const void* s_a, const void* v_b, const void* s_b,
                   void* v_merged, void* s_merged, int64_t n, int64_t h, int64_t d,
                   cudaStream_t stream) {
  const int64_t packs = n * h * (d / Pack<T>::kSize);
  const int64_t blocks = (packs + kThreads - 1) / kThreads;
  merge_state_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<T*>(v_merged), static_cast<float*>(s_merged), static_cast<const T*>(v_a),
      static_cast<const float*>(s_a), static_cast<const T*>(v_b), static_cast<const float*>(s_b),
      static_cast<unsigned>(n), static_cast<unsigned>(h), static_cast<unsigned>(d));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t merge_state_v2(const void* v_a, const void* s_a, const void* v_b,
                                      const void* s_b, void* v_merged, void* s_merged, int64_t n,
                                      int64_t h, int64_t d, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    case 1: return launch<__half>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    case 2: return launch<__nv_bfloat16>(v_a, s_a, v_b, s_b, v_merged, s_merged, n, h, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
