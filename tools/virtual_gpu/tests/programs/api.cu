// The calls of the CUDA runtime that programs make beside launches: each step that fails has its exit code.
#include <cstdio>
#include <cstdlib>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

__global__ void mark(float* rows, size_t pitch, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height) ((float*)((char*)rows + y * pitch))[x] += x + 100 * y;
}
void CUDART_CB count(void* data) { ++*(int*)data; }
void CUDART_CB count_all(cudaStream_t, cudaError_t error, void* data) { *(int*)data += error ? 100 : 1; }

static int rectangles() {
  float *rows, host[700];
  size_t pitch;
  if (cudaMallocPitch(&rows, &pitch, 400, 7) || pitch < 400 || pitch % 256) return 10;
  for (int i = 0; i < 700; ++i) host[i] = i;
  if (cudaMemset2D(rows, pitch, 0, pitch, 7)) return 11;
  if (cudaMemcpy2D(rows, pitch, host, 400, 400, 7, cudaMemcpyHostToDevice)) return 12;
  mark<<<dim3(4, 7), 32>>>(rows, pitch, 100, 7);
  if (cudaMemcpy2DAsync(host, 400, rows, pitch, 400, 7, cudaMemcpyDeviceToHost, 0)) return 13;
  for (int i = 0; i < 700; ++i)
    if (host[i] != i + i % 100 + 100 * (i / 100)) return 14;
  if (cudaMemcpy2D(rows, 300, host, 400, 400, 7, cudaMemcpyHostToDevice) != cudaErrorInvalidPitchValue) return 15;
  return cudaFree(rows) ? 16 : 0;
}

static int streams() {
  int least, greatest, priority, calls = 0;
  unsigned flags;
  cudaStream_t stream;
  if (cudaDeviceGetStreamPriorityRange(&least, &greatest) || greatest > least) return 20;
  if (cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest)) return 21;
  if (cudaStreamGetPriority(stream, &priority) || priority != greatest) return 22;
  if (cudaStreamGetFlags(stream, &flags) || flags != cudaStreamNonBlocking) return 23;
  if (cudaLaunchHostFunc(stream, count, &calls) || cudaStreamAddCallback(stream, count_all, &calls, 0)) return 24;
  if (cudaStreamSynchronize(stream) || calls != 2) return 25;
  cudaMemPool_t pool;
  unsigned long long kept = 1 << 20;
  void* memory;
  if (cudaDeviceGetDefaultMemPool(&pool, 0)) return 26;
  if (cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept)) return 27;
  if (cudaMallocAsync(&memory, 100, stream) || cudaFreeAsync(memory, stream) || cudaMemPoolTrimTo(pool, 0)) return 28;
  return cudaStreamDestroy(stream) ? 29 : 0;
}

static int memory() {
  size_t before, after, total;
  void* some;
  if (cudaMemGetInfo(&before, &total) || cudaMalloc(&some, 1 << 20) || cudaMemGetInfo(&after, &total)) return 30;
  if (before - after != 1 << 20 || total < before) return 31;
  float* own = (float*)malloc(4096);
  float* device;
  for (int i = 0; i < 32; ++i) own[i] = 1;
  if (cudaHostRegister(own, 4096, cudaHostRegisterMapped) || cudaHostGetDevicePointer(&device, own, 0)) return 32;
  mark<<<1, 32>>>(device, 4096, 32, 1);
  if (cudaDeviceSynchronize() || own[31] != 32) return 33;
  if (cudaHostRegister(own, 4096, 0) != cudaErrorHostMemoryAlreadyRegistered) return 34;
  if (cudaHostUnregister(own) || cudaHostUnregister(own) != cudaErrorHostMemoryNotRegistered) return 35;
  free(own);
  return 0;  // `some` is left to cudaDeviceReset
}

static int settings() {
  size_t limit;
  unsigned flags;
  char bus[32];
  int peer, smallest, block;
  if (cudaSetDeviceFlags(cudaDeviceScheduleSpin) || cudaGetDeviceFlags(&flags) || !(flags & cudaDeviceScheduleSpin)) return 40;
  if (cudaDeviceSetLimit(cudaLimitStackSize, 4096) || cudaDeviceGetLimit(&limit, cudaLimitStackSize) || limit != 4096) return 41;
  if (cudaDeviceSetCacheConfig(cudaFuncCachePreferL1) || cudaDeviceGetPCIBusId(bus, sizeof bus, 0)) return 42;
  if (cudaDeviceCanAccessPeer(&peer, 0, 0) || peer) return 43;
  if (cudaOccupancyMaxPotentialBlockSize(&smallest, &block, mark, 0, 0) || block < 32) return 44;
  if (cudaProfilerStart() || cudaProfilerStop()) return 45;
  return 0;
}

int main() {
  for (auto step : {rectangles, streams, memory, settings})
    if (int code = step()) return code;
  return cudaDeviceReset() ? 50 : 0;
}
