// Short rows lie in shared memory between the passes; several rows a block where they are short.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

constexpr int kRows = 4, kMost = 1024;
template <typename T>
__global__ void several(const T* in, __nv_fp8_e4m3* q, float* s, int64_t tokens, int hidden) {
  __shared__ float rows[kRows][kMost];
  const int which = threadIdx.y, lane = threadIdx.x;
  const int64_t token = int64_t(blockIdx.x) * kRows + which;
  if (token < tokens)
    for (int i = lane; i < hidden; i += 32) rows[which][i] = float(in[token * hidden + i]);
  __syncwarp();
  float most = 0;
  if (token < tokens)
    for (int i = lane; i < hidden; i += 32) most = fmaxf(most, fabsf(rows[which][i]));
  for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_down_sync(0xffffffff, most, d));
  most = __shfl_sync(0xffffffff, most, 0);
  if (token >= tokens) return;
  const float scale = most / 448.0f, by = scale > 0 ? 1.0f / scale : 0.0f;
  if (!lane) s[token] = scale;
  for (int i = lane; i < hidden; i += 32) q[token * hidden + i] = __nv_fp8_e4m3(fmaxf(fminf(rows[which][i] * by, 448.0f), -448.0f));
}
template <typename T>
__global__ void one(const T* in, __nv_fp8_e4m3* q, float* s, int hidden) {
  __shared__ float seen[33];
  const T* row = in + int64_t(blockIdx.x) * hidden;
  float most = 0;
  for (int i = threadIdx.x; i < hidden; i += 1024) most = fmaxf(most, fabsf(float(row[i])));
  for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_down_sync(0xffffffff, most, d));
  if (threadIdx.x % 32 == 0) seen[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 32; ++i) most = fmaxf(most, seen[i]);
    s[blockIdx.x] = seen[32] = most / 448.0f;
  }
  __syncthreads();
  const float by = seen[32] > 0 ? 1.0f / seen[32] : 0.0f;
  for (int i = threadIdx.x; i < hidden; i += 1024) q[int64_t(blockIdx.x) * hidden + i] = __nv_fp8_e4m3(fmaxf(fminf(float(row[i]) * by, 448.0f), -448.0f));
}
template <typename T>
void go(const void* in, void* q, void* s, int64_t tokens, int64_t hidden, cudaStream_t stream) {
  if (hidden <= kMost)
    several<<<unsigned((tokens + kRows - 1) / kRows), dim3(32, kRows), 0, stream>>>((const T*)in, (__nv_fp8_e4m3*)q, (float*)s, tokens, int(hidden));
  else
    one<<<unsigned(tokens), 1024, 0, stream>>>((const T*)in, (__nv_fp8_e4m3*)q, (float*)s, int(hidden));
}
extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int dtype, cudaStream_t stream) {
  if (!dtype) go<float>(input, output_q, output_s, tokens, hidden, stream);
  else if (dtype < 2) go<__half>(input, output_q, output_s, tokens, hidden, stream);
  else go<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, stream);
  return cudaGetLastError();
}
