// Eight lanes a group, two vectors of 16 bytes each; codes as 16 bytes; persistent blocks.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T>
__global__ __launch_bounds__(128) void quantize(const T* __restrict__ x, unsigned char* __restrict__ codes, float* __restrict__ scales, int64_t tokens, int row, bool columns) {
  const int64_t groups = tokens * row, column = (tokens + 3) & ~3ll;
  for (int64_t first = blockIdx.x * 16ll; first < groups; first += gridDim.x * 16ll) {
    const int64_t group = first + threadIdx.x / 8;
    const bool there = group < groups;
    const int part = threadIdx.x % 8 * 16;
    uint4 in[2] = {};
    if (there) {
      in[0] = __ldcs(reinterpret_cast<const uint4*>(x + group * 128 + part));
      in[1] = __ldcs(reinterpret_cast<const uint4*>(x + group * 128 + part + 8));
    }
    const T* v = reinterpret_cast<const T*>(in);
    float most = 1e-10f;
#pragma unroll
    for (int i = 0; i < 16; ++i) most = fmaxf(most, fabsf(static_cast<float>(v[i])));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
    most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 4));
    if (!there) continue;
    const float scale = most / 448.f;
    uint4 out;
    unsigned short* two = reinterpret_cast<unsigned short*>(&out);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float2 pair = make_float2(static_cast<float>(v[2 * i]) / scale, static_cast<float>(v[2 * i + 1]) / scale);
      two[i] = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
    }
    *reinterpret_cast<uint4*>(codes + group * 128 + part) = out;
    if (part == 0) {
      const int64_t token = group / row, of_row = group % row;
      scales[columns ? of_row * column + token : group] = scale;
    }
  }
}
extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int64_t column_major, int dtype, cudaStream_t stream) {
  const int64_t blocks = (tokens * (hidden / 128) + 15) / 16;
  const unsigned grid = unsigned(blocks < 2112 ? blocks : 2112);
  if (dtype == 1) quantize<<<grid, 128, 0, stream>>>((const __half*)input, (unsigned char*)output_q, (float*)output_s, tokens, int(hidden / 128), column_major == 1);
  if (dtype == 2) quantize<<<grid, 128, 0, stream>>>((const __nv_bfloat16*)input, (unsigned char*)output_q, (float*)output_s, tokens, int(hidden / 128), column_major == 1);
  return cudaGetLastError();
}
