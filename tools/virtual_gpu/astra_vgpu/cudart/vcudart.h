/* Shared by the files of the fake CUDA runtime. Compiled against the user's own toolkit headers, so
 * every structure has the layout that the kernel file's host code was compiled with.
 *
 * This side knows only the ABI: symbols, handles, the error state. What a call means is decided in
 * Python (runtime/cudart_binding.py), which fills `struct vcudart_host` with callbacks. Every callback that
 * returns an int returns a cudaError_t. */
#ifndef VCUDART_H
#define VCUDART_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

/* Field order and widths are repeated in runtime/cudart_binding.py. */
struct vcudart_device {
    char name[256];
    uint64_t memory_bytes, l2_bytes;
    int32_t major, minor, sms;
    int32_t threads_per_sm, blocks_per_sm, registers_per_sm;
    int32_t shared_per_block, shared_per_block_optin, shared_per_sm, shared_reserved_per_block;
    int32_t sm_clock_khz, memory_clock_khz, memory_bus_bits;
};

struct vcudart_function {
    int32_t registers, static_shared_bytes, max_threads, max_dynamic_shared_bytes;
    int32_t binary_version;
};

/* Repeated in runtime/host.py. TO_HOST: of a copy to the host, which is done at once. */
enum vcudart_access { VCUDART_READ, VCUDART_WRITE, VCUDART_TO_HOST };

struct vcudart_host {
    int (*launch)(int module, const char *kernel, const uint32_t *grid, const uint32_t *block,
                  uint64_t dynamic_shared_bytes, void **args, int cooperative);
    int (*allocate)(uint64_t bytes, uint64_t *address);
    int (*release)(uint64_t address);
    /* May a copy touch these bytes of device memory? enum vcudart_access; a write counts as coverage. */
    int (*touch)(uint64_t address, uint64_t bytes, int access);
    int (*symbol)(int module, const char *name, uint64_t *address, uint64_t *bytes);
    int (*function)(int module, const char *kernel, struct vcudart_function *out);
    int (*set_attribute)(int module, const char *kernel, int attribute, int value);
    int (*occupancy)(int module, const char *kernel, int threads, uint64_t dynamic_shared_bytes,
                     int *blocks);
    /* Memory that host code may touch too: managed, or pinned. */
    int (*managed)(uint64_t bytes, uint64_t *address);
    /* A call of the runtime is about to touch device memory itself (1), or has done so (0). */
    int (*open)(int on);
    /* Nanoseconds that the device's work has taken until now. */
    int (*now)(uint64_t *ns);
    /* Begin (1) to note what is asked for, or end (0): the number of the graph. */
    int (*capture)(int on, uint64_t *graph);
    /* A copy, or with `from` 0 a fill, was asked for during a capture. */
    int (*note)(uint64_t to, uint64_t from, uint64_t bytes, int kind, int value);
    int (*replay)(uint64_t graph);
    /* Host memory that kernels may touch from now on; `release` ends that. */
    int (*lend)(uint64_t address, uint64_t bytes);
    /* Bytes of device memory that are taken. */
    int (*held)(uint64_t *bytes);
    /* Release all that was allocated. */
    int (*forget)(void);
    /* How many bytes malloc of kernels may hand out. */
    int (*limit_heap)(uint64_t bytes);
    /* Note that the host code asked for something the virtual GPU lacks. */
    int (*refuse)(const char *what);
    /* The attributes of the launch that follows. NULL where only those that change nothing for the
     * virtual GPU are taken; a recorder of launch plans takes more. */
    int (*attributes)(const cudaLaunchAttribute *attributes, unsigned count);
    /* The module of a fat binary that no library was adopted with, or -1. May be NULL. */
    int (*read)(uint64_t fat_binary);
    /* A call of cuBLAS ("gemm", "vector") or cuRAND ("random") with what libraries.h says. May be NULL. */
    int (*answer)(const char *kind, const char *call, const int64_t *words);
};

#define EXPORT __attribute__((visibility("default")))
/* The forms that code compiled with --default-stream per-thread calls; here all streams are one. */
#define PER_THREAD(name, suffix) \
    extern __typeof__(name) name##suffix __attribute__((alias(#name), visibility("default")));

extern struct vcudart_host vcudart_host;
extern struct vcudart_device vcudart_device;

/* Starts Python in a program that stands by itself, once; elsewhere it does nothing. */
void vcudart_start(void);
/* Passes a call's result on as CUDA does: remembers it for cudaGetLastError, and lets the errors
 * that break a context stick. */
cudaError_t vcudart_result(int error);
/* What a call answers before it looks at its arguments: the stuck error, or that no virtual GPU is
 * attached yet (a static constructor calls CUDA), or cudaSuccess. */
cudaError_t vcudart_blocked(void);
#define RETURN_IF_BLOCKED \
    do { \
        cudaError_t blocked = vcudart_blocked(); \
        if (blocked) \
            return blocked; \
    } while (0)

#if CUDART_VERSION >= 13000
#define UNKNOWN_FUNCTION cudaErrorInvalidResourceHandle
#else
#define UNKNOWN_FUNCTION cudaErrorInvalidDeviceFunction
#endif

/* Work was asked for on this stream; a copy; what a judge does not want. */
void vcudart_asked(cudaStream_t stream);
void vcudart_asked_to_copy(const void *to, const void *from, enum cudaMemcpyKind kind, cudaStream_t stream);
void vcudart_stray(void);
void vcudart_hurry(const char *kernel);
/* Whether a stream is being captured: copies are noted instead of done. */
int vcudart_capturing(void);
/* Of a call that waits for a stream, or for all of them; of one that may wait for something: the error that it is
 * while a stream is captured, which spoils the capture. */
int vcudart_waits(cudaStream_t stream, int for_all);
int vcudart_may_wait(void);
/* In the meantime: what has just been noted, or a host function, becomes a node. */
int vcudart_captured(enum cudaGraphNodeType type, cudaHostFn_t function, void *data);
/* Copies rows whose first bytes lie a pitch apart; noted instead while capturing. */
int vcudart_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t bytes, size_t rows,
                      enum cudaMemcpyKind kind);
/* Address and size of a __device__ or __constant__ variable, by its host shadow. */
cudaError_t vcudart_find_symbol(const void *host, uint64_t *address, uint64_t *bytes);

#endif
