/* Device memory. Its addresses are host addresses that Python allocated or was given. */
#include "vcudart.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

EXPORT cudaError_t cudaMalloc(void **out, size_t bytes) {
    uint64_t address = 0;
    RETURN_IF_BLOCKED;
    int error = vcudart_may_wait();
    if (!error && bytes)
        error = vcudart_host.allocate(bytes, &address);
    *out = (void *)(uintptr_t)address;
    return vcudart_result(error);
}

/* Memory that host code may touch too, and of which kind it is. */
static struct open {
    const char *start;
    size_t bytes;
    enum cudaMemoryType type;
    struct open *next;
} *open_memory;
static pthread_mutex_t open_memory_lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(const void *start, size_t bytes, enum cudaMemoryType type) {
    struct open *one = malloc(sizeof *one);
    if (!one)
        abort();
    pthread_mutex_lock(&open_memory_lock);
    *one = (struct open){start, bytes, type, open_memory};
    open_memory = one;
    pthread_mutex_unlock(&open_memory_lock);
}

static void forget(const void *start) {
    pthread_mutex_lock(&open_memory_lock);
    for (struct open **link = &open_memory, *one; (one = *link); link = &one->next)
        if (one->start == start) {
            *link = one->next;
            free(one);
            break;
        }
    pthread_mutex_unlock(&open_memory_lock);
}

static enum cudaMemoryType type_of(const void *pointer) {
    enum cudaMemoryType type = cudaMemoryTypeDevice;
    pthread_mutex_lock(&open_memory_lock);
    for (const struct open *one = open_memory; one; one = one->next)
        if ((const char *)pointer >= one->start && (const char *)pointer < one->start + one->bytes) {
            type = one->type;
            break;
        }
    pthread_mutex_unlock(&open_memory_lock);
    return type;
}

EXPORT cudaError_t cudaFree(void *pointer) {
    RETURN_IF_BLOCKED;
    forget(pointer);
    return vcudart_result(pointer ? vcudart_host.release(number(pointer)) : cudaSuccess);
}

EXPORT cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) {
    (void)stream;
    RETURN_IF_BLOCKED;
    if (vcudart_capturing())
        return vcudart_result(vcudart_host.refuse("cudaMallocAsync while a stream is captured (memory nodes)"));
    return cudaMalloc(out, bytes);
}
PER_THREAD(cudaMallocAsync, _ptsz)

EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    (void)stream;
    RETURN_IF_BLOCKED;
    if (vcudart_capturing())
        return vcudart_result(vcudart_host.refuse("cudaFreeAsync while a stream is captured (memory nodes)"));
    return cudaFree(pointer);
}
PER_THREAD(cudaFreeAsync, _ptsz)

static cudaError_t allocate_open(void **out, size_t bytes, enum cudaMemoryType type) {
    uint64_t address = 0;
    *out = NULL;
    RETURN_IF_BLOCKED;
    int error = bytes ? vcudart_host.managed(bytes, &address) : cudaSuccess;
    *out = (void *)(uintptr_t)address;
    if (!error && bytes)
        remember(*out, bytes, type);
    return vcudart_result(error);
}

/* Pinned memory is the kernels' too. */
EXPORT cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags) {
    if (flags & ~(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
        return vcudart_result(cudaErrorInvalidValue);
    return allocate_open(out, bytes, cudaMemoryTypeHost);
}

EXPORT cudaError_t cudaMallocHost(void **out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }

EXPORT cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags) {
    if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
        return vcudart_result(cudaErrorInvalidValue);
    return allocate_open(out, bytes, cudaMemoryTypeManaged);
}

EXPORT cudaError_t cudaHostGetDevicePointer(void **out, void *pointer, unsigned flags) {
    (void)flags;
    RETURN_IF_BLOCKED;
    *out = pointer;
    return vcudart_result(vcudart_host.touch(number(pointer), 0, VCUDART_READ));
}

EXPORT cudaError_t cudaFreeHost(void *pointer) { return cudaFree(pointer); }

static int is_device(const void *pointer) {
    return vcudart_host.touch(number(pointer), 0, VCUDART_READ) == cudaSuccess;
}

void vcudart_asked_to_copy(const void *to, const void *from, enum cudaMemcpyKind kind, cudaStream_t stream) {
    const int between = kind == cudaMemcpyDeviceToDevice || (kind == cudaMemcpyDefault && is_device(to) && is_device(from));
    vcudart_asked(stream);
    if (!between)
        vcudart_stray();
}

/* May `bytes` be copied? */
static int permitted(const void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (!bytes)
        return cudaSuccess;
    if (!to || !from)
        return cudaErrorInvalidValue;
    int automatic = kind == cudaMemcpyDefault;
    int to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    int from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    int error = cudaSuccess;
    to_device = to_device || (automatic && is_device(to));
    if (from_device || (automatic && is_device(from)))
        error = vcudart_host.touch(number(from), bytes,
                                   to_device || vcudart_capturing() ? VCUDART_READ : VCUDART_TO_HOST);
    if (!error && to_device)
        error = vcudart_host.touch(number(to), bytes, VCUDART_WRITE);
    return error;
}

static int copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return vcudart_copy_rows(to, bytes, from, bytes, bytes, 1, kind);
}

int vcudart_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows,
                      enum cudaMemcpyKind kind) {
    char *target = to;
    const char *source = from;
    int error = permitted(to, from, rows ? bytes : 0, kind);
    for (size_t row = 1; row < rows && !error; ++row)
        error = permitted(target + row * to_pitch, source + row * from_pitch, bytes, kind);
    if (error || !bytes || !rows)
        return error;
    const int noted = vcudart_capturing();
    if (!noted)
        vcudart_host.open(1);
    for (size_t row = 0; row < rows && !error; ++row, target += to_pitch, source += from_pitch) {
        if (noted)
            error = vcudart_host.note(number(target), number(source), bytes, (int)kind, 0);
        else
            memmove(target, source, bytes);
    }
    if (!noted)
        vcudart_host.open(0);
    return error || !noted ? error : vcudart_captured(cudaGraphNodeTypeMemcpy, NULL, NULL);
}

EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    RETURN_IF_BLOCKED;
    return vcudart_result(copy(to, from, bytes, kind));
}
PER_THREAD(cudaMemcpy, _ptds)

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream) {
    vcudart_asked_to_copy(to, from, kind, stream);
    return cudaMemcpy(to, from, bytes, kind);
}
PER_THREAD(cudaMemcpyAsync, _ptsz)

EXPORT cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
    RETURN_IF_BLOCKED;
    int error = bytes ? vcudart_host.touch(number(pointer), bytes, VCUDART_WRITE) : cudaSuccess;
    if (!error && bytes && vcudart_capturing()) {
        error = vcudart_host.note(number(pointer), 0, bytes, 0, value);
        return vcudart_result(error ? error : vcudart_captured(cudaGraphNodeTypeMemset, NULL, NULL));
    }
    if (!error && bytes) {
        vcudart_host.open(1);
        memset(pointer, value, bytes);
        vcudart_host.open(0);
    }
    return vcudart_result(error);
}
PER_THREAD(cudaMemset, _ptds)

EXPORT cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
    vcudart_asked(stream);
    return cudaMemset(pointer, value, bytes);
}
PER_THREAD(cudaMemsetAsync, _ptsz)

/* The address `offset` bytes into a variable, if `bytes` more fit. */
static int inside_symbol(const void *symbol, size_t offset, size_t bytes, void **address) {
    uint64_t start = 0, extent = 0;
    int error = vcudart_find_symbol(symbol, &start, &extent);
    if (error)
        return error;
    if (offset > extent || bytes > extent - offset)
        return cudaErrorInvalidValue;
    *address = (void *)(uintptr_t)(start + offset);
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes,
                                      size_t offset, enum cudaMemcpyKind kind) {
    void *to = NULL;
    RETURN_IF_BLOCKED;
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice &&
        kind != cudaMemcpyDefault)
        return vcudart_result(cudaErrorInvalidMemcpyDirection);
    int error = inside_symbol(symbol, offset, bytes, &to);
    return vcudart_result(error ? error : copy(to, from, bytes, kind));
}
PER_THREAD(cudaMemcpyToSymbol, _ptds)

EXPORT cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                        enum cudaMemcpyKind kind) {
    void *from = NULL;
    RETURN_IF_BLOCKED;
    if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice &&
        kind != cudaMemcpyDefault)
        return vcudart_result(cudaErrorInvalidMemcpyDirection);
    int error = inside_symbol(symbol, offset, bytes, &from);
    return vcudart_result(error ? error : copy(to, from, bytes, kind));
}
PER_THREAD(cudaMemcpyFromSymbol, _ptds)

EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes,
                                           size_t offset, enum cudaMemcpyKind kind,
                                           cudaStream_t stream) {
    (void)stream;
    return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz)

EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes,
                                             size_t offset, enum cudaMemcpyKind kind,
                                             cudaStream_t stream) {
    (void)stream;
    return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz)

EXPORT cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) {
    RETURN_IF_BLOCKED;
    return vcudart_result(inside_symbol(symbol, 0, 0, out));
}

EXPORT cudaError_t cudaGetSymbolSize(size_t *out, const void *symbol) {
    uint64_t address = 0, bytes = 0;
    RETURN_IF_BLOCKED;
    int error = vcudart_find_symbol(symbol, &address, &bytes);
    if (!error)
        *out = bytes;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    RETURN_IF_BLOCKED;
    memset(out, 0, sizeof *out);
    int device = is_device(pointer);
    out->type = device ? type_of(pointer) : cudaMemoryTypeUnregistered;
    out->device = device ? 0 : -2;
    out->devicePointer = device ? (void *)(uintptr_t)pointer : NULL;
    out->hostPointer = out->type == cudaMemoryTypeDevice ? NULL : (void *)(uintptr_t)pointer;
    return vcudart_result(cudaSuccess);
}
