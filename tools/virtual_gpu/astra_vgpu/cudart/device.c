/* What the one device says about itself. */
#include "vcudart.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* These three answer in a broken context too, as an H200 does. */
EXPORT cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaSetDevice(int device) {
    return vcudart_result(device ? cudaErrorInvalidDevice : cudaSuccess);
}

EXPORT cudaError_t cudaDeviceSynchronize(void) {
    /* Every launch has ended when it returns. */
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_waits(NULL, 1));
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    const struct vcudart_device *d = &vcudart_device;
    RETURN_IF_BLOCKED;
    if (device)
        return vcudart_result(cudaErrorInvalidDevice);
    memset(out, 0, sizeof *out);
    memcpy(out->name, d->name, sizeof out->name);
    out->totalGlobalMem = d->memory_bytes;
    out->sharedMemPerBlock = (size_t)d->shared_per_block;
    out->sharedMemPerBlockOptin = (size_t)d->shared_per_block_optin;
    out->sharedMemPerMultiprocessor = (size_t)d->shared_per_sm;
    out->reservedSharedMemPerBlock = (size_t)d->shared_reserved_per_block;
    out->regsPerBlock = out->regsPerMultiprocessor = d->registers_per_sm;
    out->warpSize = 32;
    out->maxThreadsPerBlock = out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
    out->maxThreadsDim[2] = 64;
    out->maxGridSize[0] = INT_MAX;
    out->maxGridSize[1] = out->maxGridSize[2] = 65535;
    out->totalConstMem = 65536;
    out->major = d->major;
    out->minor = d->minor;
    out->multiProcessorCount = d->sms;
    out->maxThreadsPerMultiProcessor = d->threads_per_sm;
    out->maxBlocksPerMultiProcessor = d->blocks_per_sm;
    out->l2CacheSize = (int)d->l2_bytes;
    out->memoryBusWidth = d->memory_bus_bits;
    out->textureAlignment = 512;
    out->memPitch = INT_MAX;
    out->unifiedAddressing = 1;
    out->cooperativeLaunch = out->managedMemory = out->concurrentManagedAccess = 1;
    out->concurrentKernels = out->canMapHostMemory = out->memoryPoolsSupported = 1;
    out->asyncEngineCount = 3;
    out->ECCEnabled = out->streamPrioritiesSupported = out->computePreemptionSupported = 1;
    out->globalL1CacheSupported = out->localL1CacheSupported = 1;
#if CUDART_VERSION < 13000
    out->clockRate = d->sm_clock_khz;
    out->memoryClockRate = d->memory_clock_khz;
#endif
    return vcudart_result(cudaSuccess);
}

/* The value of an attribute, or -1 for one that the virtual GPU has no answer to. */
static int attribute(enum cudaDeviceAttr which) {
    const struct vcudart_device *d = &vcudart_device;
    switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return INT_MAX;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return d->shared_per_block;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return d->shared_per_block_optin;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return d->shared_per_sm;
    case cudaDevAttrReservedSharedMemoryPerBlock: return d->shared_reserved_per_block;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return d->registers_per_sm;
    case cudaDevAttrTotalConstantMemory: return 65536;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrClockRate: return d->sm_clock_khz;
    case cudaDevAttrMemoryClockRate: return d->memory_clock_khz;
    case cudaDevAttrGlobalMemoryBusWidth: return d->memory_bus_bits;
    case cudaDevAttrL2CacheSize: return (int)d->l2_bytes;
    case cudaDevAttrMultiProcessorCount: return d->sms;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return d->threads_per_sm;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return d->blocks_per_sm;
    case cudaDevAttrComputeCapabilityMajor: return d->major;
    case cudaDevAttrComputeCapabilityMinor: return d->minor;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrMemoryPoolsSupported: return 1;
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrMaxPitch: return INT_MAX;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment: return 512;
    case cudaDevAttrTexturePitchAlignment: return 32;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return d->major >= 8 && d->minor == 0 ? 2 : 64;
    /* Features that are absent here: code that asks goes another way. */
    case cudaDevAttrClusterLaunch:
    case cudaDevAttrComputeMode: /* cudaComputeModeDefault */
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrMultiGpuBoardGroupID:
    case cudaDevAttrTccDriver:
    case cudaDevAttrGPUDirectRDMASupported:
    case cudaDevAttrMaxPersistingL2CacheSize:
    case cudaDevAttrIntegrated:
    case cudaDevAttrKernelExecTimeout: return 0;
    default: return -1;
    }
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
    RETURN_IF_BLOCKED;
    if (device)
        return vcudart_result(cudaErrorInvalidDevice);
    if (which < cudaDevAttrMaxThreadsPerBlock || which >= cudaDevAttrMax)
        return vcudart_result(cudaErrorInvalidValue);
    int answer = attribute(which);
    if (answer < 0) {
        char what[64];
        snprintf(what, sizeof what, "cudaDeviceGetAttribute of attribute %d", (int)which);
        return vcudart_result(vcudart_host.refuse(what));
    }
    *value = answer;
    return vcudart_result(cudaSuccess);
}
