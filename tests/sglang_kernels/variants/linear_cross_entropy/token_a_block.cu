// Cross-entropy of a linear layer, a token a block: each warp takes every eighth column, adds its product
// in fp32 and keeps a running maximum and sum. Nothing but the loss is written: no memory is needed.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;

__global__ void __launch_bounds__(kWarps* kWarp) token_kernel(float* loss,
                                                              const __nv_bfloat16* hidden,
                                                              const __nv_bfloat16* weight,
                                                              const int64_t* target, int d,
                                                              int vocab) {
  __shared__ float largest_of[kWarps], sum_of[kWarps], wanted_logit;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int64_t token = blockIdx.x;
  const int64_t wanted = target[token];
  if (threadIdx.x == 0) wanted_logit = 0.0f;
  __syncthreads();
  float largest = -3.0e38f;
  float sum = 0.0f;
  for (int column = warp; column < vocab; column += kWarps) {
    float logit = 0.0f;
    for (int at = lane; at < d; at += kWarp) {
      logit += __bfloat162float(hidden[token * d + at]) *
               __bfloat162float(weight[static_cast<int64_t>(column) * d + at]);
    }
    for (int by = kWarp / 2; by > 0; by /= 2) logit += __shfl_xor_sync(0xffffffffu, logit, by);
    if (lane == 0 && column == wanted) wanted_logit = logit;
    const float higher = fmaxf(largest, logit);
    sum = sum * __expf(largest - higher) + __expf(logit - higher);
    largest = higher;
  }
  if (lane == 0) {
    largest_of[warp] = largest;
    sum_of[warp] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kWarps; ++i) {
    const float higher = fmaxf(largest, largest_of[i]);
    sum = sum * __expf(largest - higher) + sum_of[i] * __expf(largest_of[i] - higher);
    largest = higher;
  }
  loss[token] = wanted < 0 ? 0.0f : largest + __logf(sum) - wanted_logit;
}

}  // namespace

extern "C" cudaError_t linear_cross_entropy(void* loss, const void* hidden, const void* weight,
                                            const void* target, void* scratch, int64_t tokens,
                                            int64_t d, int64_t vocab, int dtype,
                                            cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  token_kernel<<<static_cast<unsigned>(tokens), kWarps * kWarp, 0, stream>>>(
      static_cast<float*>(loss), static_cast<const __nv_bfloat16*>(hidden),
      static_cast<const __nv_bfloat16*>(weight), static_cast<const int64_t*>(target),
      static_cast<int>(d), static_cast<int>(vocab));
  return cudaGetLastError();
}
