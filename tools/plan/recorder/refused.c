/* Calls of the CUDA runtime whose effect no launch plan can hold. Each is refused by its name. */
#include <stdio.h>
#include <string.h>

/* No header of CUDA's here: of each call only the name matters, and that it returns an error. */
int refuse(const char *what);
int settle(int error);

char refused[256];
static const int not_supported = 801; /* cudaErrorNotSupported */

int refuse(const char *what) {
    if (!refused[0])
        snprintf(refused, sizeof refused, "%s", what);
    return not_supported;
}

#define EXPORT __attribute__((visibility("default")))
#define REFUSE(name) \
    EXPORT int name(void); \
    EXPORT int name(void) { return settle(refuse(#name)); }
#define REFUSE_TWO(name, suffix) REFUSE(name) REFUSE(name##suffix)

/* Memory: all that a launcher may use is among its arguments. */
REFUSE(cudaMalloc) REFUSE(cudaFree) REFUSE(cudaMallocPitch) REFUSE(cudaMalloc3D) REFUSE(cudaMallocManaged)
REFUSE(cudaMallocHost) REFUSE(cudaHostAlloc) REFUSE(cudaFreeHost) REFUSE(cudaHostRegister)
REFUSE(cudaHostUnregister) REFUSE(cudaHostGetDevicePointer) REFUSE(cudaMemGetInfo) REFUSE(cudaMemAdvise)
REFUSE_TWO(cudaMallocAsync, _ptsz) REFUSE_TWO(cudaFreeAsync, _ptsz) REFUSE_TWO(cudaMallocFromPoolAsync, _ptsz)
REFUSE_TWO(cudaMemPrefetchAsync, _ptsz) REFUSE_TWO(cudaStreamAttachMemAsync, _ptsz)
REFUSE(cudaMemPoolCreate) REFUSE(cudaMemPoolDestroy) REFUSE(cudaMemPoolGetAttribute)
REFUSE(cudaMemPoolSetAttribute) REFUSE(cudaMemPoolTrimTo) REFUSE(cudaDeviceGetDefaultMemPool)
REFUSE(cudaDeviceGetMemPool) REFUSE(cudaDeviceSetMemPool)

/* Copies that wait, or that host memory takes part in. */
REFUSE_TWO(cudaMemset, _ptds) REFUSE_TWO(cudaMemset2D, _ptds) REFUSE_TWO(cudaMemcpy, _ptds)
REFUSE_TWO(cudaMemcpy2D, _ptds) REFUSE_TWO(cudaMemcpy3D, _ptds) REFUSE_TWO(cudaMemcpy3DAsync, _ptsz)
REFUSE_TWO(cudaMemcpyToSymbol, _ptds) REFUSE_TWO(cudaMemcpyFromSymbol, _ptds)
REFUSE_TWO(cudaMemcpyToSymbolAsync, _ptsz) REFUSE_TWO(cudaMemcpyFromSymbolAsync, _ptsz)

/* Streams, events, host functions: one stream, the caller's, without waiting. */
REFUSE(cudaStreamCreate) REFUSE(cudaStreamCreateWithFlags) REFUSE(cudaStreamCreateWithPriority)
REFUSE(cudaStreamDestroy) REFUSE_TWO(cudaStreamSynchronize, _ptsz) REFUSE_TWO(cudaStreamQuery, _ptsz)
REFUSE_TWO(cudaStreamWaitEvent, _ptsz) REFUSE_TWO(cudaStreamGetFlags, _ptsz)
REFUSE_TWO(cudaStreamGetPriority, _ptsz) REFUSE_TWO(cudaStreamAddCallback, _ptsz)
REFUSE_TWO(cudaLaunchHostFunc, _ptsz) REFUSE(cudaStreamBeginCapture) REFUSE(cudaStreamEndCapture)
REFUSE_TWO(cudaStreamIsCapturing, _ptsz) REFUSE(cudaDeviceSynchronize)
REFUSE(cudaDeviceGetStreamPriorityRange) REFUSE(cudaEventCreate) REFUSE(cudaEventCreateWithFlags)
REFUSE(cudaEventDestroy) REFUSE_TWO(cudaEventRecord, _ptsz) REFUSE(cudaEventSynchronize)
REFUSE(cudaEventQuery) REFUSE(cudaEventElapsedTime)

/* The device's settings, which the next caller would find changed, and which device it is. */
REFUSE(cudaDeviceReset) REFUSE(cudaDeviceSetLimit) REFUSE(cudaDeviceGetLimit) REFUSE(cudaSetDeviceFlags)
REFUSE(cudaGetDeviceFlags) REFUSE(cudaDeviceSetCacheConfig) REFUSE(cudaDeviceGetCacheConfig)
REFUSE(cudaFuncSetCacheConfig) REFUSE(cudaDeviceGetPCIBusId) REFUSE(cudaDeviceCanAccessPeer)
REFUSE(cudaChooseDevice) REFUSE(cudaProfilerStart) REFUSE(cudaProfilerStop)

/* What depends on how a GPU's multiprocessors are grouped: only a real GPU can answer. */
REFUSE(cudaOccupancyMaxActiveClusters) REFUSE(cudaOccupancyMaxPotentialClusterSize)

/* Graphs. */
REFUSE(cudaGraphCreate) REFUSE(cudaGraphDestroy) REFUSE(cudaGraphInstantiate)
REFUSE(cudaGraphInstantiateWithFlags) REFUSE_TWO(cudaGraphLaunch, _ptsz) REFUSE(cudaGraphClone)
REFUSE(cudaGraphUpload) REFUSE(cudaGraphExecDestroy) REFUSE(cudaGraphExecUpdate)
REFUSE(cudaGraphAddChildGraphNode) REFUSE(cudaGraphAddDependencies) REFUSE(cudaGraphAddEmptyNode)
REFUSE(cudaGraphAddEventRecordNode) REFUSE(cudaGraphAddEventWaitNode) REFUSE(cudaGraphAddHostNode)
REFUSE(cudaGraphAddKernelNode) REFUSE(cudaGraphAddMemcpyNode) REFUSE(cudaGraphAddMemcpyNode1D)
REFUSE(cudaGraphAddMemsetNode) REFUSE(cudaGraphExecKernelNodeSetParams)
REFUSE(cudaGraphExecMemcpyNodeSetParams1D) REFUSE(cudaGraphExecMemsetNodeSetParams)
REFUSE(cudaGraphGetNodes) REFUSE(cudaGraphGetRootNodes) REFUSE(cudaGraphKernelNodeSetParams)
REFUSE(cudaGraphNodeGetType) REFUSE(cudaGraphNodeSetEnabled)
