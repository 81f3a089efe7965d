// Two kernels: the second reads the first's scales, in whatever layout, and codes 16 elements a thread.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

struct Places {
  int64_t per_token, token_step, group_step;
  __host__ __device__ int64_t of(int64_t group) const { return group / per_token * token_step + group % per_token * group_step; }
};
template <typename T>
__global__ void find(const T* in, float* s, int64_t groups, Places places) {
  const int64_t group = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (group >= groups) return;
  float most = 0;
  for (int i = 0; i < 16; ++i) {
    const uint4 word = reinterpret_cast<const uint4*>(in + group * 128)[(i + threadIdx.x) % 16];
    for (int k = 0; k < 8; ++k) most = fmaxf(most, fabsf(float(reinterpret_cast<const T*>(&word)[k])));
  }
  s[places.of(group)] = fmaxf(most, 1e-10f) / 448.0f;
}
template <typename T>
__global__ void code(const T* in, const float* s, __nv_fp8x4_e4m3* q, int64_t pieces, Places places) {
  const int64_t piece = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (piece >= pieces) return;
  const float scale = s[places.of(piece / 8)];
  for (int k = 0; k < 4; ++k) {
    const T* x = in + piece * 16 + 4 * k;
    q[piece * 4 + k] = __nv_fp8x4_e4m3(make_float4(float(x[0]) / scale, float(x[1]) / scale, float(x[2]) / scale, float(x[3]) / scale));
  }
}
template <typename T>
cudaError_t both(const void* in, void* q, void* s, int64_t tokens, int64_t hidden, int64_t columns, cudaStream_t stream) {
  const int64_t per_token = hidden / 128, groups = tokens * per_token;
  const Places places{per_token, columns ? 1 : per_token, columns ? 4 * ((tokens + 3) / 4) : 1};
  find<<<unsigned((groups + 63) / 64), 64, 0, stream>>>((const T*)in, (float*)s, groups, places);
  if (const auto error = cudaGetLastError()) return error;
  code<<<unsigned((groups * 8 + 127) / 128), 128, 0, stream>>>((const T*)in, (const float*)s, (__nv_fp8x4_e4m3*)q, groups * 8, places);
  return cudaGetLastError();
}
extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int64_t column_major, int dtype, cudaStream_t stream) {
  return dtype == 1 ? both<__half>(input, output_q, output_s, tokens, hidden, column_major, stream) : both<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, column_major, stream);
}
