// A launcher that is a template over the element type, in a namespace, as header libraries have.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace lib {
namespace norm {

template <typename T>
__global__ void RMSNormKernel(T* __restrict__ input, T* __restrict__ weight,
                              T* __restrict__ output, const uint32_t d, const uint32_t stride_input,
                              const uint32_t stride_output, float weight_bias, float eps) {
  __shared__ float total;
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < d; ++i) {
      const float x = static_cast<float>(input[blockIdx.x * stride_input + i]);
      sum += x * x;
    }
    total = rsqrtf(sum / static_cast<float>(d) + eps);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = static_cast<float>(input[blockIdx.x * stride_input + i]);
    output[blockIdx.x * stride_output + i] =
        static_cast<T>(x * total * (weight_bias + static_cast<float>(weight[i])));
  }
}

template <typename T>
cudaError_t RMSNorm(T* input, T* weight, T* output, uint32_t batch_size, uint32_t d,
                    uint32_t stride_input, uint32_t stride_output, float eps = 1e-5,
                    cudaStream_t stream = 0) {
  float weight_bias = 0.f;
  void* args[] = {&input, &weight, &output, &d, &stride_input, &stride_output, &weight_bias, &eps};
  RMSNormKernel<T><<<batch_size, 128, 0, stream>>>(input, weight, output, d, stride_input,
                                                   stride_output, weight_bias, eps);
  (void)args;
  return cudaGetLastError();
}

}  // namespace norm
}  // namespace lib
