// What a device-query tool prints, pools, callbacks, peers, IPC-free; error paths.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <string>
__global__ void nothing() {}
__global__ void needs(float *p) { extern __shared__ float s[]; s[threadIdx.x] = 1; __syncthreads(); p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x]; }
static void CUDART_CB done(cudaStream_t, cudaError_t status, void *data) { printf("callback %d %s\n", (int)status, (const char *)data); }
int main() {
  int count = 0; cudaError_t id = cudaGetDeviceCount(&count); if (id != cudaSuccess) { printf("cudaGetDeviceCount returned %d\n-> %s\n", (int)id, cudaGetErrorString(id)); exit(EXIT_FAILURE); }
  int driver = 0, runtime = 0; cudaDriverGetVersion(&driver); cudaRuntimeGetVersion(&runtime); printf("%d device(s), driver %d.%d\n", count, driver / 1000, (driver % 100) / 10);
  for (int dev = 0; dev < count; ++dev) { cudaSetDevice(dev); cudaDeviceProp p; cudaGetDeviceProperties(&p, dev);
    printf("\"%s\" memory %d GB, cores? %d SMs, L2 %d, const %zu, shared %zu, regs %d, warp %d, threads/SM %d\n", p.name, (int)(p.totalGlobalMem >> 30), p.multiProcessorCount, p.l2CacheSize, p.totalConstMem, p.sharedMemPerBlock, p.regsPerBlock, p.warpSize, p.maxThreadsPerMultiProcessor);
    printf("block %dx%dx%d grid %dx%dx%d pitch %zu texalign %zu tex1d %d tex2d %dx%d ECC %d tcc %d uva %d preempt %d coop %d pci %d:%d:%d\n", p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2], p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2], p.memPitch, p.textureAlignment, p.maxTexture1D > 0, p.maxTexture2D[0] > 0, p.maxTexture2D[1] > 0, p.ECCEnabled, p.tccDriver, p.unifiedAddressing, p.computePreemptionSupported, p.cooperativeLaunch, p.pciDomainID, p.pciBusID, p.pciDeviceID);
    int v; for (int a : {(int)cudaDevAttrClockRate, (int)cudaDevAttrMemoryClockRate, (int)cudaDevAttrKernelExecTimeout, (int)cudaDevAttrComputeMode, (int)cudaDevAttrGpuOverlap, (int)cudaDevAttrAsyncEngineCount, (int)cudaDevAttrEccEnabled, (int)cudaDevAttrTextureAlignment, (int)cudaDevAttrPciBusId, (int)cudaDevAttrMaxPitch, (int)cudaDevAttrSurfaceAlignment, (int)cudaDevAttrStreamPrioritiesSupported, (int)cudaDevAttrPageableMemoryAccess, (int)cudaDevAttrComputePreemptionSupported, (int)cudaDevAttrCanUseHostPointerForRegisteredMem, (int)cudaDevAttrHostNativeAtomicSupported, (int)cudaDevAttrSingleToDoublePrecisionPerfRatio, (int)cudaDevAttrIsMultiGpuBoard, (int)cudaDevAttrTccDriver, (int)cudaDevAttrMultiGpuBoardGroupID, (int)cudaDevAttrDirectManagedMemAccessFromHost, (int)cudaDevAttrGPUDirectRDMASupported}) { cudaError_t e = cudaDeviceGetAttribute(&v, (cudaDeviceAttr)a, dev); if (e) printf("attribute %d: %s\n", a, cudaGetErrorName(e)); }
    char bus[20]; cudaDeviceGetPCIBusId(bus, sizeof bus, dev); int peer; cudaDeviceCanAccessPeer(&peer, 0, 0);
    size_t lim; cudaDeviceGetLimit(&lim, cudaLimitStackSize); printf("stack %zu ", lim); cudaDeviceGetLimit(&lim, cudaLimitPrintfFifoSize); printf("fifo %zu\n", lim); }
  nothing<<<0, 32>>>(); printf("empty grid: %s\n", cudaGetErrorName(cudaGetLastError()));
  nothing<<<1, 2048>>>(); printf("big block: %s\n", cudaGetErrorName(cudaPeekAtLastError())); cudaGetLastError();
  nothing<<<dim3(1, 70000), 1>>>(); printf("tall grid: %s\n", cudaGetErrorName(cudaGetLastError()));
  float *p; printf("no memory: %s\n", cudaGetErrorName(cudaMalloc(&p, (size_t)1 << 50))); cudaGetLastError();
  printf("free twice: "); cudaMalloc(&p, 4096); cudaFree(p); printf("%s\n", cudaGetErrorName(cudaFree(p))); cudaGetLastError();
  cudaMalloc(&p, 4096); needs<<<1, 1024, 100 << 10>>>(p); printf("no opt-in: %s\n", cudaGetErrorName(cudaGetLastError()));
  cudaFuncSetAttribute(needs, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10); needs<<<1, 1024, 100 << 10>>>(p); printf("opt-in: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  cudaFuncAttributes fa; cudaFuncGetAttributes(&fa, needs); printf("dynamic %d, ptx %d, local %zu\n", fa.maxDynamicSharedSizeBytes, fa.ptxVersion, fa.localSizeBytes);
  printf("bad copy: %s\n", cudaGetErrorName(cudaMemcpy(p, p + 10, 1 << 20, cudaMemcpyDeviceToDevice))); cudaGetLastError();
  cudaStream_t s; int least, greatest; cudaDeviceGetStreamPriorityRange(&least, &greatest); cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest);
  cudaStreamAddCallback(s, done, (void *)"hello", 0); float *q; cudaMallocAsync((void **)&q, 1 << 16, s); cudaMemsetAsync(q, 0, 1 << 16, s); cudaFreeAsync(q, s); cudaStreamSynchronize(s);
  cudaMemPool_t pool; cudaDeviceGetDefaultMemPool(&pool, 0); unsigned long long keep = ~0ull; printf("pool %s\n", cudaGetErrorName(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)));
  cudaMemPoolProps mp = {}; mp.allocType = cudaMemAllocationTypePinned; mp.location.type = cudaMemLocationTypeDevice; mp.location.id = 0; cudaMemPool_t mine; printf("own pool %s\n", cudaGetErrorName(cudaMemPoolCreate(&mine, &mp))); cudaMallocFromPoolAsync((void **)&q, 4096, mine, s); cudaFreeAsync(q, s); cudaMemPoolDestroy(mine);
  int *pinned, *managed; cudaPointerAttributes pa; cudaMallocHost((void **)&pinned, 64); cudaMallocManaged(&managed, 64);
  cudaPointerGetAttributes(&pa, pinned + 3); printf("pinned %d ", pa.type == cudaMemoryTypeHost); cudaPointerGetAttributes(&pa, managed + 15); printf("managed %d ", pa.type == cudaMemoryTypeManaged);
  cudaPointerGetAttributes(&pa, p); printf("device %d ", pa.type == cudaMemoryTypeDevice); cudaPointerGetAttributes(&pa, &s); printf("none %d\n", pa.type == cudaMemoryTypeUnregistered); cudaFreeHost(pinned); cudaFree(managed);
  printf("no device: %s\n", cudaGetErrorName(cudaSetDevice(5))); cudaGetLastError(); cudaStreamDestroy(s); cudaFree(p); return 0;
}
