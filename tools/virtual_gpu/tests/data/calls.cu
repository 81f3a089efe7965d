// Host code of many kinds for the fake CUDA runtime. call_code(which) makes one call that a GPU answers
// with a particular error and returns that answer; `expected_codes` in test_runtime.py were seen on an H200.
#include <cstdint>
#include <cuda_runtime.h>

__constant__ float factors[4];
__device__ int visits = 7;
__device__ int table[16];

template <typename T>
__global__ void scale(T* out, const T* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * factors[0];
}

__global__ void count() { atomicAdd(&visits, 1); }

__global__ void mirror(int* data) {
  extern __shared__ int staged[];
  staged[threadIdx.x] = data[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  data[blockIdx.x * blockDim.x + threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

__global__ void __launch_bounds__(128) bounded(int* data) { data[threadIdx.x] = 1; }

__global__ void large_static(int* data) {
  __shared__ int staged[10240];
  staged[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = staged[blockDim.x - 1 - threadIdx.x];
}

// About 64 live values a thread: 1024 threads of it do not fit into 65536 registers.
__global__ void many_registers(float* data) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = data[i * blockDim.x + threadIdx.x];
#pragma unroll 1
  for (int round = 0; round < 3; ++round) {
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 1) % 64] + v[(i + 5) % 64];
  }
#pragma unroll
  for (int i = 0; i < 64; ++i) data[i * blockDim.x + threadIdx.x] = v[i];
}

__global__ void write_at(int* data, int64_t offset) { data[offset] = 1; }
__global__ void write_misaligned(char* data) { *reinterpret_cast<int*>(data + 1) = 1; }
__global__ void stop() { __trap(); }

enum Way { kChevron, kClassic, kExtended };

template <typename T>
static cudaError_t launched(Way way, void (*kernel)(T*), dim3 grid, dim3 block, size_t dynamic, int* data = nullptr) {
  T* typed = reinterpret_cast<T*>(data);
  void* args[] = {&typed};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic;
  switch (way) {
    case kClassic:
      return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, args, dynamic, nullptr);
    case kExtended: return cudaLaunchKernelEx(&config, kernel, typed);
    default: kernel<<<grid, block, dynamic>>>(typed); return cudaPeekAtLastError();
  }
}

extern "C" {

// out[i] = factor * in[i], launched in three ways.
int run_chevron(float* out, const float* in, int n, cudaStream_t stream) {
  scale<float><<<(n + 127) / 128, 128, 0, stream>>>(out, in, n);
  return cudaGetLastError();
}

int run_classic(double* out, const double* in, int n, cudaStream_t stream) {
  void* args[] = {&out, &in, &n};
  return cudaLaunchKernel(reinterpret_cast<const void*>(scale<double>), dim3((n + 63) / 64), dim3(64), args, 0,
                          stream);
}

int run_ex(float* out, const float* in, int n, int attribute) {
  cudaLaunchAttribute attributes[1] = {};
  attributes[0].id = static_cast<cudaLaunchAttributeID>(attribute);
  if (attribute == cudaLaunchAttributeClusterDimension) {
    attributes[0].val.clusterDim.x = 2;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  } else {
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = (n + 127) / 128;
  config.blockDim = 128;
  config.attrs = attributes;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, scale<float>, out, in, n);
}

int set_factor(float factor) {
  const float values[4] = {factor, 0, 0, 0};
  return cudaMemcpyToSymbol(factors, values, sizeof values);
}

int visit(int launches) {
  for (int i = 0; i < launches; ++i) count<<<2, 64>>>();
  int seen = 0;
  if (cudaMemcpyFromSymbol(&seen, visits, sizeof seen) != cudaSuccess) return -1;
  return seen;
}

int reverse(int* data, int blocks, int threads, int dynamic, int opt_in) {
  if (opt_in) {
    cudaError_t error = cudaFuncSetAttribute(mirror, cudaFuncAttributeMaxDynamicSharedMemorySize, opt_in);
    if (error) return error;
  }
  mirror<<<blocks, threads, dynamic>>>(data);
  return cudaGetLastError();
}

// Doubles the n floats at host[] on the device, by copies and memory of its own; returns the error.
int round_trip(float* host, int n) {
  float *a = nullptr, *b = nullptr;
  cudaStream_t stream;
  cudaEvent_t start, end;
  const size_t bytes = n * sizeof(float);
  if (cudaStreamCreate(&stream) || cudaEventCreate(&start) || cudaEventCreate(&end)) return 1;
  if (cudaMalloc(&a, bytes) || cudaMallocAsync(&b, bytes, stream)) return 2;
  if (cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice, stream)) return 3;
  if (cudaMemsetAsync(b, 0, bytes, stream) || set_factor(2.0f)) return 4;
  if (cudaEventRecord(start, stream)) return 5;
  scale<float><<<(n + 127) / 128, 128, 0, stream>>>(b, a, n);
  float ms = -1;
  if (cudaEventRecord(end, stream) || cudaEventSynchronize(end) || cudaEventElapsedTime(&ms, start, end)) return 6;
  if (cudaMemcpy(host, b, bytes, cudaMemcpyDefault)) return 7;
  if (cudaFree(a) || cudaFreeAsync(b, stream) || cudaStreamSynchronize(stream)) return 8;
  if (cudaEventDestroy(start) || cudaEventDestroy(end) || cudaStreamDestroy(stream)) return 9;
  return ms >= 0 ? cudaGetLastError() : 10;
}

int symbol_bytes(uint64_t* address) {
  size_t bytes = 0;
  if (cudaGetSymbolAddress(reinterpret_cast<void**>(address), table) || cudaGetSymbolSize(&bytes, table)) return -1;
  return static_cast<int>(bytes);
}

int occupancy(int which, int threads, int dynamic) {
  int blocks = -1;
  const void* kernels[] = {reinterpret_cast<const void*>(scale<float>), reinterpret_cast<const void*>(mirror),
                           reinterpret_cast<const void*>(large_static),
                           reinterpret_cast<const void*>(many_registers)};
  if (which == 1) cudaFuncSetAttribute(mirror, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000);
  if (which == 0) cudaFuncSetAttribute(scale<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 1000);
  const cudaError_t error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels[which], threads, dynamic);
  return error ? -static_cast<int>(error) : blocks;
}

// registers, static shared, largest dynamic shared, largest block of many_registers or large_static.
int function_attributes(int which, int* out) {
  cudaFuncAttributes a;
  const cudaError_t error = which ? cudaFuncGetAttributes(&a, large_static) : cudaFuncGetAttributes(&a, many_registers);
  out[0] = a.numRegs;
  out[1] = static_cast<int>(a.sharedSizeBytes);
  out[2] = a.maxDynamicSharedSizeBytes;
  out[3] = a.maxThreadsPerBlock;
  return error;
}

int device_properties(int* out, char* name) {
  cudaDeviceProp p;
  const cudaError_t error = cudaGetDeviceProperties(&p, 0);
  for (int i = 0; i < 256; ++i) name[i] = p.name[i];
  const size_t values[] = {static_cast<size_t>(p.multiProcessorCount), p.sharedMemPerBlockOptin,
                           p.sharedMemPerMultiprocessor, static_cast<size_t>(p.regsPerMultiprocessor),
                           static_cast<size_t>(p.maxThreadsPerMultiProcessor),
                           static_cast<size_t>(p.maxBlocksPerMultiProcessor), static_cast<size_t>(p.l2CacheSize),
                           static_cast<size_t>(p.memoryBusWidth), p.reservedSharedMemPerBlock,
                           static_cast<size_t>(p.major), static_cast<size_t>(p.minor), p.totalGlobalMem >> 20};
  for (int i = 0; i < 12; ++i) out[i] = static_cast<int>(values[i]);
  return error;
}

int device_attribute(int attribute) {
  int value = -1;
  const cudaError_t error = cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(attribute), 0);
  return error ? -static_cast<int>(error) : value;
}

int last_error() { return cudaGetLastError(); }
int peek_error() { return cudaPeekAtLastError(); }
int synchronize() { return cudaDeviceSynchronize(); }
const char* error_name(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }
const char* error_words(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

// Kernels that break the context: the error of the synchronisation after them.
int broken(int which, int* data) {
  if (which == 0) write_at<<<1, 1>>>(data, int64_t{1} << 40);
  if (which == 1) write_misaligned<<<1, 1>>>(reinterpret_cast<char*>(data));
  if (which == 2) stop<<<1, 1>>>();
  if (which == 3) write_at<<<1, 1>>>(nullptr, 0);
  return cudaDeviceSynchronize();
}

// Launches that a GPU refuses, in each of the three ways.
int launch_code(int which, int way_number, int* data) {
  const Way way = static_cast<Way>(way_number);
  switch (which) {
    case 0: return launched(way, mirror, 1, 1025, 8192);
    case 1: return launched(way, mirror, 1, 0, 0);
    case 2: return launched(way, mirror, 0, 32, 128);
    case 3: return launched(way, mirror, dim3(1, 65536), 32, 128);
    case 4: return launched(way, mirror, dim3(1, 1, 65536), 32, 128);
    case 5: return launched(way, mirror, 1, dim3(1, 1, 65), 512);
    case 6: return launched(way, mirror, 1, 32, 49153);
    case 7: return launched(way, mirror, 1, 32, 300000);
    case 8: return launched(way, large_static, 1, 32, 10000);
    case 9: return launched(way, bounded, 1, 129, 0);
    case 10: return launched(way, many_registers, 1, 1024, 0);
    case 11: return launched(way, mirror, dim3(0x80000000u), 32, 128);
    case 12: return launched(way, bounded, 1, 128, 0, data);
    default: return -1;
  }
}

int call_code(int which, int* data) {
  int host[32] = {};
  void* pointer = nullptr;
  cudaEvent_t event = nullptr, later = nullptr;
  float ms = 0;
  int value = 0;
  switch (which) {
    case 12: return cudaFuncSetAttribute(mirror, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449);
    case 13: return cudaFuncSetAttribute(mirror, cudaFuncAttributeMaxDynamicSharedMemorySize, -1);
    case 14: return cudaFuncSetAttribute(large_static, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448);
    case 15: return cudaFuncSetAttribute(reinterpret_cast<const void*>(host),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
    case 16: return cudaLaunchKernel(reinterpret_cast<const void*>(host), dim3(1), dim3(1), nullptr, 0, nullptr);
    case 17: return cudaSetDevice(1);
    case 18: return cudaMalloc(&pointer, size_t{1} << 50);
    case 19: return cudaFree(host);
    case 20: return cudaMemcpy(host, data, sizeof host, static_cast<cudaMemcpyKind>(7));
    case 21: return cudaMemcpyToSymbol(table, host, sizeof host, 0);
    case 22: return cudaMemcpyToSymbol(table, host, 4, 64);
    case 23: return cudaMemcpyToSymbol(reinterpret_cast<const void*>(host), host, 4, 0);
    case 24: return cudaMemcpyFromSymbol(host, table, 4, 0, cudaMemcpyHostToDevice);
    case 25: return cudaEventCreate(&event) || cudaEventCreate(&later) ? -1 : cudaEventElapsedTime(&ms, event, later);
    case 26: return cudaMalloc(&pointer, 0) || pointer ? -1 : 0;
    case 27: return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, mirror, 0, 0);
    case 28: return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 3);
    case 29: return cudaMemset(host, 0, sizeof host);
    case 30: return cudaFree(data + 1);
    case 31: return cudaMemcpy(data, host, 64, cudaMemcpyDeviceToDevice);
    case 32: return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, bounded, 256, 0) ? -1 : value;
    case 33: return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, mirror, 2048, 0) ? -1 : value;
    case 34: return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, large_static, 128, 200000) ? -1 : value;
    case 35: return cudaMemcpy(host, host + 16, 16, cudaMemcpyDefault);
    case 36: return cudaMemcpyToSymbol(table, host, 64, 0, cudaMemcpyDefault);
    default: return -1;
  }
}
}
