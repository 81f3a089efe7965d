// Kernels that test_cuda_plans.py launches by plan: each kind of node and launch attribute.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;

__device__ unsigned long long calls = 7;

extern "C" __global__ void scale(float* out, const float* in, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factor;
}

extern "C" __global__ void count(unsigned long long* variable, float* out) {
  if (threadIdx.x == 0) {
    atomicAdd(variable, 1ull);
    out[blockIdx.x] = float(calls);
  }
}

extern "C" __global__ void produce(float* between, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) between[i] = in[i] + 1.0f;
  cudaTriggerProgrammaticLaunchCompletion();
}

extern "C" __global__ void consume(float* out, const float* between, int n) {
  cudaGridDependencySynchronize();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = between[i] * 2.0f;
}

// Every block adds the partial sums of all blocks: wrong unless all of them run at once and wait.
extern "C" __global__ void all_sums(float* out, float* partial, const float* in, int n) {
  extern __shared__ float sums[];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += in[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float whole = 0;
    for (int i = 0; i < blockDim.x; ++i) whole += sums[i];
    partial[blockIdx.x] = whole;
  }
  cg::this_grid().sync();
  if (threadIdx.x == 0) {
    float whole = 0;
    for (int i = 0; i < gridDim.x; ++i) whole += partial[i];
    out[blockIdx.x] = whole;
  }
}

// A block writes what the next one in its cluster holds in shared memory.
extern "C" __global__ void neighbour(float* out, const float* in) {
  __shared__ float mine;
  cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = in[blockIdx.x];
  cluster.sync();
  unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&mine, next);
  cluster.sync();
}

// A tile of 16 rows of 32 floats at column 32 and row 8 of a matrix, by the tensor copy engine.
extern "C" __global__ void tile(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float held[16][32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
  if (threadIdx.x == 0) {
    init(&arrived, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::experimental::cp_async_bulk_tensor_2d_global_to_shared(&held, &map, 32, 8, arrived);
    token = cuda::device::barrier_arrive_tx(arrived, 1, sizeof(held));
  } else {
    token = arrived.arrive();
  }
  arrived.wait(std::move(token));
  for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) out[i] = held[i / 32][i % 32];
}
