/* What a program queries or sets on the device: limits, flags, hints, pools. Here they change
 * nothing, but a program that asks for what it set gets it back. */
#include "vcudart.h"
#include <stdio.h>
#include <string.h>

static size_t limits[8] = {
    [cudaLimitStackSize] = 1024, [cudaLimitPrintfFifoSize] = 1 << 20, [cudaLimitMallocHeapSize] = 8 << 20,
    [cudaLimitDevRuntimeSyncDepth] = 2, [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
};
static unsigned flags;

EXPORT cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    RETURN_IF_BLOCKED;
    if ((unsigned)limit >= sizeof limits / sizeof *limits)
        return vcudart_result(cudaErrorUnsupportedLimit);
    const int error = limit == cudaLimitMallocHeapSize ? vcudart_host.limit_heap(value) : 0;
    if (!error)
        limits[limit] = value;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    RETURN_IF_BLOCKED;
    if ((unsigned)limit >= sizeof limits / sizeof *limits)
        return vcudart_result(cudaErrorUnsupportedLimit);
    *value = limits[limit];
    return cudaSuccess;
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned value) {
    RETURN_IF_BLOCKED;
    flags = value;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceFlags(unsigned *value) {
    RETURN_IF_BLOCKED;
    *value = flags | cudaDeviceMapHost;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    (void)config;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
    RETURN_IF_BLOCKED;
    *config = cudaFuncCachePreferNone;
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    RETURN_IF_BLOCKED;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    uint64_t held = 0;
    RETURN_IF_BLOCKED;
    int error = vcudart_host.held(&held);
    *total = vcudart_device.memory_bytes;
    *available = vcudart_device.memory_bytes - held;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *out, int length, int device) {
    RETURN_IF_BLOCKED;
    if (device)
        return vcudart_result(cudaErrorInvalidDevice);
    snprintf(out, (size_t)length, "0000:00:00.0");
    return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *able, int device, int peer) {
    RETURN_IF_BLOCKED;
    if (device || peer)
        return vcudart_result(cudaErrorInvalidDevice);
    *able = 0;
    return cudaSuccess;
}

EXPORT cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted) {
    (void)wanted;
    RETURN_IF_BLOCKED;
    *device = 0;
    return cudaSuccess;
}

/* Memory that the program has already: kernels may touch it from now on. */
EXPORT cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned how) {
    (void)how;
    RETURN_IF_BLOCKED;
    return vcudart_result(bytes ? vcudart_host.lend((uint64_t)(uintptr_t)pointer, bytes) : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaHostUnregister(void *pointer) {
    RETURN_IF_BLOCKED;
    int error = vcudart_host.release((uint64_t)(uintptr_t)pointer);
    return vcudart_result(error ? cudaErrorHostMemoryNotRegistered : cudaSuccess);
}

/* Hints. */
#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation place,
                                        unsigned how, cudaStream_t stream) {
    (void)pointer;
    (void)bytes;
    (void)place;
    (void)how;
    (void)stream;
    return vcudart_blocked();
}
EXPORT cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                                 struct cudaMemLocation place) {
    (void)pointer;
    (void)bytes;
    (void)advice;
    (void)place;
    return vcudart_blocked();
}
#else
EXPORT cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device, cudaStream_t stream) {
    (void)pointer;
    (void)bytes;
    (void)device;
    (void)stream;
    return vcudart_blocked();
}
EXPORT cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, int device) {
    (void)pointer;
    (void)bytes;
    (void)advice;
    (void)device;
    return vcudart_blocked();
}
#endif
PER_THREAD(cudaMemPrefetchAsync, _ptsz)

EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned how) {
    (void)stream;
    (void)pointer;
    (void)bytes;
    (void)how;
    return vcudart_blocked();
}
PER_THREAD(cudaStreamAttachMemAsync, _ptsz)

/* All pools are one: cudaMallocAsync allocates as cudaMalloc does. */
static char pool;

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device) {
    RETURN_IF_BLOCKED;
    if (device)
        return vcudart_result(cudaErrorInvalidDevice);
    *out = (cudaMemPool_t)&pool;
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t which, enum cudaMemPoolAttr attribute, void *value) {
    (void)which;
    (void)attribute;
    (void)value;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t which, enum cudaMemPoolAttr attribute, void *value) {
    uint64_t held = 0;
    (void)which;
    RETURN_IF_BLOCKED;
    if (attribute == cudaMemPoolAttrUsedMemCurrent || attribute == cudaMemPoolAttrReservedMemCurrent) {
        const int error = vcudart_host.held(&held);
        *(uint64_t *)value = held;
        return vcudart_result(error);
    }
    return vcudart_result(vcudart_host.refuse("this attribute of a memory pool"));
}

EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *out, int device) {
    return cudaDeviceGetDefaultMemPool(out, device);
}

EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t which) {
    RETURN_IF_BLOCKED;
    return vcudart_result(device || !which ? cudaErrorInvalidValue : cudaSuccess);
}

EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *properties) {
    RETURN_IF_BLOCKED;
    *out = (cudaMemPool_t)&pool;
    return vcudart_result(properties->location.id ? cudaErrorInvalidDevice : cudaSuccess);
}

EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t which) {
    RETURN_IF_BLOCKED;
    return vcudart_result(which ? cudaSuccess : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t which, cudaStream_t stream) {
    (void)which;
    return cudaMallocAsync(out, bytes, stream);
}
PER_THREAD(cudaMallocFromPoolAsync, _ptsz)

EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t which, size_t bytes) {
    (void)which;
    (void)bytes;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaProfilerStart(void) { return vcudart_blocked(); }
EXPORT cudaError_t cudaProfilerStop(void) { return vcudart_blocked(); }
