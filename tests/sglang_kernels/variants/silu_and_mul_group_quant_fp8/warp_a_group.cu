// One kernel: a warp a group, four neighbours a lane, nothing rounded or stored in between.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

__global__ void warp_a_group(const __nv_bfloat16* input, uint32_t* output_q, float* output_s,
                             int64_t groups, int64_t row_groups, int64_t column) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.y;
  if (group >= groups) return;
  const int64_t token = group / row_groups;
  const int64_t at = group % row_groups;
  const int64_t d = row_groups * 128;
  const __nv_bfloat16* gate = input + token * 2 * d + at * 128 + threadIdx.x * 4;
  float y[4];
  float largest = 1e-10f;
  for (int i = 0; i < 4; ++i) {
    const float x = __bfloat162float(gate[i]);
    y[i] = x / (1.0f + __expf(-x)) * __bfloat162float(gate[d + i]);
    largest = fmaxf(largest, fabsf(y[i]));
  }
  for (int apart = 16; apart > 0; apart /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
  }
  const float scale = largest / 448.0f;
  if (threadIdx.x == 0) output_s[column ? at * column + token : group] = scale;
  const float times = 1.0f / scale;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(__nv_cvt_float_to_fp8(y[i] * times, __NV_SATFINITE, __NV_E4M3))
            << (8 * i);
  }
  output_q[group * 32 + threadIdx.x] = word;
}

}  // namespace

extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q,
                                                    void* output_s, void* activated, int64_t tokens,
                                                    int64_t d, int64_t column_major, int dtype,
                                                    cudaStream_t stream) {
  const int64_t groups = tokens * (d / 128);
  warp_a_group<<<static_cast<unsigned>((groups + 3) / 4), dim3(32, 4), 0, stream>>>(
      static_cast<const __nv_bfloat16*>(input), static_cast<uint32_t*>(output_q),
      static_cast<float*>(output_s), groups, d / 128, column_major ? (tokens + 3) / 4 * 4 : 0);
  return cudaGetLastError();
}
