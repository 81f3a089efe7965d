// A cluster of two blocks a row: each adds up the squares of its half and reads the other's sum.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void __cluster_dims__(2, 1, 1) pair_of_blocks(T* x, float* norms, int64_t n, float eps) {
  __shared__ float warps[4], mine;
  const auto cluster = cooperative_groups::this_cluster();
  const unsigned rank = cluster.block_rank();
  const int64_t row = blockIdx.x / 2, from = rank ? n / 2 : 0, to = rank ? n : n / 2;
  float squares = 0.0f;
  for (int64_t i = from + threadIdx.x; i < to; i += 128) squares += float(x[row * n + i]) * float(x[row * n + i]);
  for (int o = 16; o > 0; o /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, o);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = squares;
  __syncthreads();
  if (threadIdx.x == 0) mine = (warps[0] + warps[1]) + (warps[2] + warps[3]);
  cluster.sync();
  const float length = sqrtf(*cluster.map_shared_rank(&mine, 0) + *cluster.map_shared_rank(&mine, 1) + eps);
  for (int64_t i = from + threadIdx.x; i < to; i += 128) x[row * n + i] = T(float(x[row * n + i]) / length);
  if (rank == 0 && threadIdx.x == 0) norms[row] = length;
  cluster.sync();
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    pair_of_blocks<<<unsigned(2 * rows), 128, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    pair_of_blocks<<<unsigned(2 * rows), 128, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
