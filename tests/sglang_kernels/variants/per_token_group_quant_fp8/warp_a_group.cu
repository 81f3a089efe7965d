// A warp a group, four neighbours a lane; the largest magnitude by its bits; the code is a product with
// one over the scale.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

__device__ inline float wide(__half value) { return __half2float(value); }
__device__ inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__global__ void warp_a_group(const T* input, uint32_t* output_q, float* output_s, int64_t groups,
                             int64_t row_groups, int64_t column) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.y;
  if (group >= groups) return;
  const int64_t first = group * 128 + threadIdx.x * 4;
  float x[4];
  unsigned bits = __float_as_uint(1e-10f);
  for (int i = 0; i < 4; ++i) {
    x[i] = wide(input[first + i]);
    bits = max(bits, __float_as_uint(x[i]) & 0x7fffffffu);
  }
  const float scale = __uint_as_float(__reduce_max_sync(0xffffffffu, bits)) / 448.0f;
  const int64_t token = group / row_groups;
  const int64_t at = group % row_groups;
  if (threadIdx.x == 0) output_s[column ? at * column + token : group] = scale;
  const float times = 1.0f / scale;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(__nv_cvt_float_to_fp8(x[i] * times, __NV_SATFINITE, __NV_E4M3))
            << (8 * i);
  }
  output_q[first / 4] = word;
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   int64_t column_major, cudaStream_t stream) {
  const int64_t groups = tokens * (hidden / 128);
  warp_a_group<T><<<static_cast<unsigned>((groups + 3) / 4), dim3(32, 4), 0, stream>>>(
      static_cast<const T*>(input), static_cast<uint32_t*>(output_q), static_cast<float*>(output_s),
      groups, hidden / 128, column_major ? (tokens + 3) / 4 * 4 : 0);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s,
                                                 int64_t tokens, int64_t hidden,
                                                 int64_t column_major, int dtype,
                                                 cudaStream_t stream) {
  const auto run = dtype == 1 ? launch<__half> : launch<__nv_bfloat16>;
  return run(input, output_q, output_s, tokens, hidden, column_major, stream);
}
