// Experts of a few tokens, in the order of SGLang's Triton fused_moe, as three launches: gate and up
// with SiLU, down, and the weighted sum. A warp takes a column of one token and one of its experts:
// lanes take eight of the sum's terms at a time, by 16-byte loads, and add in fp32; shuffles reduce.
// Between both products h is rounded to bfloat16. Weights of an expert that several tokens chose are
// read for each of them.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kVector = 8;  // of bfloat16 in 16 bytes

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// A row of weights times a row of values, in all lanes of a warp.
__device__ __forceinline__ float product(const __nv_bfloat16* weights, const __nv_bfloat16* row,
                                         int length) {
  float sum = 0.0f;
  for (int at = threadIdx.x % kWarp * kVector; at < length; at += kWarp * kVector) {
    float by[kVector], values[kVector];
    to_floats(*reinterpret_cast<const uint4*>(weights + at), by);
    to_floats(*reinterpret_cast<const uint4*>(row + at), values);
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum += by[i] * values[i];
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  return sum;
}

__global__ void __launch_bounds__(kThreads) activate_kernel(__nv_bfloat16* activated,
                                                            const __nv_bfloat16* x,
                                                            const __nv_bfloat16* w13,
                                                            const int* ids, int hidden,
                                                            int intermediate, int topk) {
  const int column = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (column >= intermediate) return;
  const int pair = blockIdx.y;  // a token and one of its experts
  const int expert = ids[pair];
  const __nv_bfloat16* row = x + pair / topk * hidden;
  const __nv_bfloat16* gates = w13 + static_cast<int64_t>(expert) * 2 * intermediate * hidden;
  const __nv_bfloat16* ups = gates + static_cast<int64_t>(intermediate) * hidden;
  const float gate = product(gates + column * hidden, row, hidden);
  const float up = product(ups + column * hidden, row, hidden);
  if (threadIdx.x % kWarp == 0) {
    const float act = gate / (1.0f + __expf(-gate));
    activated[pair * intermediate + column] = __float2bfloat16_rn(act * up);
  }
}

__global__ void __launch_bounds__(kThreads) down_kernel(float* parts,
                                                        const __nv_bfloat16* activated,
                                                        const __nv_bfloat16* w2, const int* ids,
                                                        int hidden, int intermediate) {
  const int column = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (column >= hidden) return;
  const int pair = blockIdx.y;
  const int64_t expert = ids[pair];
  const __nv_bfloat16* weights = w2 + (expert * hidden + column) * intermediate;
  const float sum = product(weights, activated + pair * intermediate, intermediate);
  if (threadIdx.x % kWarp == 0) parts[pair * hidden + column] = sum;
}

__global__ void __launch_bounds__(kThreads) sum_kernel(__nv_bfloat16* out, const float* parts,
                                                       const float* weights, int hidden, int topk) {
  const int column = blockIdx.x * kThreads + threadIdx.x;
  if (column >= hidden) return;
  const int token = blockIdx.y;
  float sum = 0.0f;
  for (int place = 0; place < topk; ++place) {
    const int pair = token * topk + place;
    sum += weights[pair] * parts[pair * hidden + column];
  }
  out[token * hidden + column] = __float2bfloat16_rn(sum);
}

dim3 grid_of(int columns, int each, int rows) {
  return dim3(static_cast<unsigned>((columns + each - 1) / each), static_cast<unsigned>(rows));
}

}  // namespace

extern "C" cudaError_t moe_experts_small(void* out, const void* hidden_states, const void* w13,
                                         const void* w2, const void* topk_weights,
                                         const void* topk_ids, void* activated, void* parts,
                                         int64_t tokens, int64_t hidden, int64_t intermediate,
                                         int64_t, int64_t topk, int dtype, cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  const int rows = static_cast<int>(tokens), columns = static_cast<int>(hidden);
  const int inner = static_cast<int>(intermediate), places = static_cast<int>(topk);
  const int* ids = static_cast<const int*>(topk_ids);
  __nv_bfloat16* h = static_cast<__nv_bfloat16*>(activated);
  float* sums = static_cast<float*>(parts);
  activate_kernel<<<grid_of(inner, kWarps, rows * places), kThreads, 0, stream>>>(
      h, static_cast<const __nv_bfloat16*>(hidden_states), static_cast<const __nv_bfloat16*>(w13),
      ids, columns, inner, places);
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  down_kernel<<<grid_of(columns, kWarps, rows * places), kThreads, 0, stream>>>(
      sums, h, static_cast<const __nv_bfloat16*>(w2), ids, columns, inner);
  status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  sum_kernel<<<grid_of(columns, kThreads, rows), kThreads, 0, stream>>>(
      static_cast<__nv_bfloat16*>(out), sums, static_cast<const float*>(topk_weights), columns,
      places);
  return cudaGetLastError();
}
