// Two programmatic launches: sums of tiles, then elements; shuffles with a predicate in inline PTX.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int warp_scan(int value) {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    int left;
    asm volatile("{\n.reg .pred p;\nshfl.sync.up.b32 %0|p, %1, %2, 0, 0xffffffff;\n@!p mov.b32 %0, 0;\n}" : "=&r"(left) : "r"(value), "r"(o));
    value += left;
  }
  return value;
}

__global__ void tile_sums(int* sums, const int* x, int n) {
  __shared__ int warps[32];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * 1024 + threadIdx.x;
  const int sum = __reduce_add_sync(0xffffffffu, i < n ? x[i] : 0);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int total = __reduce_add_sync(0xffffffffu, warps[threadIdx.x]);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
  }
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

__global__ void elements(int* out, const int* sums, const int* x, int n) {
  __shared__ int warps[32];
  const int i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int sum = warp_scan(i < n ? x[i] : 0);
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int before = lane < warp ? warps[lane] : 0;
  for (int t = lane; t < blockIdx.x; t += 32) before += sums[t];
  before = __reduce_add_sync(0xffffffffu, before);
  if (i < n) out[i] = before + sum;
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{dim3(unsigned((n + 1023) / 1024)), dim3(1024), 0, stream, &attribute, 1};
  const cudaError_t error = cudaLaunchKernelEx(&config, tile_sums, (int*)room, (const int*)x, int(n));
  return error ? error : cudaLaunchKernelEx(&config, elements, (int*)out, (const int*)room, (const int*)x, int(n));
}
