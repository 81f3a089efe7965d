// Generic code: a visitor over the elements of a row, given to the same loop twice as a lambda.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

template <int kThreads>
struct Team {
  float* shared;

  template <typename T, typename Visit>
  __device__ void each(T* row, int64_t n, Visit visit) const {
    for (int64_t i = threadIdx.x; i < n; i += kThreads) {
      if constexpr (std::is_same_v<T, float>) {
        visit(row[i]);
      } else {
        float value = __half2float(row[i]);
        visit(value);
        row[i] = __float2half_rn(value);
      }
    }
  }

  __device__ float sum(float own) const {
    shared[threadIdx.x] = own;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    __syncthreads();
    return shared[0];
  }
};

template <typename T, int kThreads>
__global__ void normalise(T* x, float* norms, int64_t n, float eps) {
  __shared__ float room[kThreads];
  const Team<kThreads> team{room};
  T* row = x + blockIdx.x * n;
  float squares = 0.0f;
  team.each(row, n, [&](float& value) { squares = fmaf(value, value, squares); });
  const float length = sqrtf(team.sum(squares) + eps);
  team.each(row, n, [=](float& value) { value /= length; });
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  const auto run = [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    normalise<T, 512><<<static_cast<unsigned>(rows), 512, 0, stream>>>(
        typed, static_cast<float*>(norms), n, eps);
    return cudaGetLastError();
  };
  return dtype == 0 ? run(static_cast<float*>(x)) : run(static_cast<__half*>(x));
}
