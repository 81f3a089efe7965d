// The row is fetched and put back by bulk copies; a cuda::barrier counts the bytes.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cuda/barrier>

using Barrier = cuda::barrier<cuda::thread_scope_block>;

template <typename T>
__device__ float squares(const T* values, int64_t count) {
  float total = 0.0f;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) total += float(values[i]) * float(values[i]);
  for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffffu, total, o);
  __shared__ float parts[8];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
  __syncthreads();
  total = 0.0f;
  for (int w = 0; w < int(blockDim.x) / 32; ++w) total += parts[w];
  return total;
}

template <typename T>
__global__ void norm(T* x, float* norms, int64_t n, float eps) {
  __shared__ alignas(128) unsigned char bytes[16384];
  __shared__ Barrier arrived;
  T* row = x + blockIdx.x * n;
  T* staged = reinterpret_cast<T*>(bytes);
  const int64_t size = n * sizeof(T);
  const bool bulk = size <= int64_t(sizeof bytes) && size % 16 == 0 && reinterpret_cast<uintptr_t>(row) % 16 == 0;
  if (bulk) {
    if (threadIdx.x == 0) init(&arrived, blockDim.x);
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
      cuda::device::memcpy_async_tx(staged, row, cuda::aligned_size_t<16>(size), arrived);
      token = cuda::device::barrier_arrive_tx(arrived, 1, size);
    } else {
      token = arrived.arrive();
    }
    arrived.wait(std::move(token));
  }
  T* values = bulk ? staged : row;
  const float length = sqrtf(squares(values, n) + eps);
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) values[i] = T(float(values[i]) / length);
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
  if (!bulk) return;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(row), "r"(unsigned(__cvta_generic_to_shared(staged))), "r"(unsigned(size)) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0) norm<<<unsigned(rows), 256, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else norm<<<unsigned(rows), 256, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
