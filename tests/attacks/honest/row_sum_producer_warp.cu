// Warps with roles: the last one copies stages ahead with cp.async, the others add; barriers in
// shared memory say which stage is full and which is free again.
#include <cstdint>
#include <cuda/barrier>
#include <cuda/std/utility>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>

using Barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int kStages = 3, kStage = 256, kConsumers = 128, kProducers = 32;

__global__ void __launch_bounds__(kConsumers + kProducers)
sum_rows(float* __restrict__ out, const float* __restrict__ x, int64_t n) {
  __shared__ float ring[kStages][kStage];
  __shared__ float partial[kConsumers / 32];
  __shared__ alignas(8) unsigned char places[2][kStages][sizeof(Barrier)];
  auto full = [&](int s) -> Barrier& { return *reinterpret_cast<Barrier*>(places[0][s]); };
  auto free = [&](int s) -> Barrier& { return *reinterpret_cast<Barrier*>(places[1][s]); };
  if (threadIdx.x < kStages) {
    init(&full(threadIdx.x), kConsumers + kProducers);
    init(&free(threadIdx.x), kConsumers + kProducers);
  }
  __syncthreads();
  const float* row = x + blockIdx.x * n;
  const int64_t stages = (n + kStage - 1) / kStage;
  const bool produces = threadIdx.x >= kConsumers;
  float sum = 0.0f;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int slot = int(stage % kStages);
    if (produces) {
      if (stage >= kStages) free(slot).arrive_and_wait();
      for (int i = threadIdx.x - kConsumers; i < kStage; i += kProducers)
        if (stage * kStage + i < n)
          __pipeline_memcpy_async(&ring[slot][i], row + stage * kStage + i, sizeof(float));
      __pipeline_commit();
      __pipeline_wait_prior(0);
      (void)full(slot).arrive();
    } else {
      full(slot).arrive_and_wait();
      for (int i = threadIdx.x; i < kStage && stage * kStage + i < n; i += kConsumers)
        sum += ring[slot][i];
      if (stage + kStages < stages) (void)free(slot).arrive();
    }
  }
  if (!produces) {
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = partial[0];
    for (int w = 1; w < kConsumers / 32; ++w) total += partial[w];
    out[blockIdx.x] = total;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), kConsumers + kProducers, 0, stream>>>(
      static_cast<float*>(out), static_cast<const float*>(x), n);
  return cudaGetLastError();
}
