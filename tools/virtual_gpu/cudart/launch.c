/* Registration of kernels and variables, and the three ways in which host code launches. */
#include "vcudart.h"
#include <stdlib.h>
#include <string.h>

struct variable {
    const void *host;
    int module;
    char *name;
    void **fatbin;
    struct variable *next;
};

static struct vcudart_kernel *kernels;
static struct variable *variables;
static int current_module = -1;

/* Python calls this before it loads a library: what registers next belongs to that module. */
EXPORT void vcudart_begin_module(int module) { current_module = module; }

EXPORT void **__cudaRegisterFatBinary(void *binary) {
    (void)binary;
    void **handle = malloc(sizeof *handle);
    if (!handle)
        abort();
    *handle = (void *)(intptr_t)current_module;
    return handle;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

EXPORT void __cudaRegisterFunction(void **handle, const char *stub, char *function,
                                   const char *name, int thread_limit, void *thread, void *block,
                                   void *block_dim, void *grid_dim, int *warp_size) {
    (void)function, (void)thread_limit, (void)thread, (void)block, (void)block_dim;
    (void)grid_dim, (void)warp_size;
    struct vcudart_kernel *kernel = malloc(sizeof *kernel);
    char *copy = strdup(name);
    if (!kernel || !copy)
        abort();
    *kernel = (struct vcudart_kernel){stub, (int)(intptr_t)*handle, copy, handle, kernels};
    kernels = kernel;
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *address, const char *name,
                              int external, size_t bytes, int constant, int global) {
    (void)address, (void)external, (void)bytes, (void)constant, (void)global;
    struct variable *variable = malloc(sizeof *variable);
    char *copy = strdup(name);
    if (!variable || !copy)
        abort();
    *variable = (struct variable){host, (int)(intptr_t)*handle, copy, handle, variables};
    variables = variable;
}

EXPORT void __cudaUnregisterFatBinary(void **handle) {
    for (struct vcudart_kernel **link = &kernels; *link;) {
        struct vcudart_kernel *kernel = *link;
        if (kernel->fatbin != handle) {
            link = &kernel->next;
            continue;
        }
        *link = kernel->next;
        free(kernel->name);
        free(kernel);
    }
    for (struct variable **link = &variables; *link;) {
        struct variable *variable = *link;
        if (variable->fatbin != handle) {
            link = &variable->next;
            continue;
        }
        *link = variable->next;
        free(variable->name);
        free(variable);
    }
    free(handle);
}

const struct vcudart_kernel *vcudart_find_kernel(const void *stub) {
    for (const struct vcudart_kernel *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->stub == stub)
            return kernel;
    return NULL;
}

cudaError_t vcudart_find_symbol(const void *host, uint64_t *address, uint64_t *bytes) {
    for (const struct variable *variable = variables; variable; variable = variable->next)
        if (variable->host == host)
            return vcudart_host.symbol(variable->module, variable->name, address, bytes);
    return cudaErrorInvalidSymbol;
}

/* <<<...>>> pushes its configuration, then calls the stub, which pops it. An argument expression
 * may itself launch, hence a stack. */
struct configuration {
    dim3 grid, block;
    size_t dynamic_shared_bytes;
    cudaStream_t stream;
};
enum { MAX_NESTED_LAUNCHES = 64 };
static _Thread_local struct configuration pushed[MAX_NESTED_LAUNCHES];
static _Thread_local int depth;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                            cudaStream_t stream) {
    if (depth == MAX_NESTED_LAUNCHES)
        return cudaErrorLaunchOutOfResources;
    pushed[depth++] = (struct configuration){grid, block, dynamic_shared_bytes, stream};
    return cudaSuccess;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *dynamic_shared_bytes,
                                              void *stream) {
    if (depth == 0)
        return vcudart_result(cudaErrorInvalidConfiguration);
    struct configuration top = pushed[--depth];
    *grid = top.grid;
    *block = top.block;
    *dynamic_shared_bytes = top.dynamic_shared_bytes;
    *(cudaStream_t *)stream = top.stream;
    return cudaSuccess;
}

static cudaError_t launch(const struct vcudart_kernel *kernel, dim3 grid, dim3 block, void **args,
                          size_t dynamic_shared_bytes) {
    if (vcudart_blocked())
        return vcudart_blocked();
    if (!kernel)
        return vcudart_result(cudaErrorInvalidDeviceFunction);
    const uint32_t grid_xyz[3] = {grid.x, grid.y, grid.z};
    const uint32_t block_xyz[3] = {block.x, block.y, block.z};
    return vcudart_result(vcudart_host.launch(kernel->module, kernel->name, grid_xyz, block_xyz,
                                              dynamic_shared_bytes, args));
}

/* CUDA 13: a stub fetches its handle once and launches by it. */
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *stub) {
    *handle = (cudaKernel_t)vcudart_find_kernel(stub);
    return *handle ? cudaSuccess : vcudart_result(cudaErrorInvalidDeviceFunction);
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void **args,
                                      size_t dynamic_shared_bytes, cudaStream_t stream) {
    (void)stream;
    return launch((const struct vcudart_kernel *)handle, grid, block, args, dynamic_shared_bytes);
}
PER_THREAD(__cudaLaunchKernel, _ptsz)

EXPORT cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args,
                                    size_t dynamic_shared_bytes, cudaStream_t stream) {
    (void)stream;
    return launch(vcudart_find_kernel(stub), grid, block, args, dynamic_shared_bytes);
}
PER_THREAD(cudaLaunchKernel, _ptsz)

static const char *attribute_name(cudaLaunchAttributeID id) {
    switch (id) {
    case cudaLaunchAttributeAccessPolicyWindow:
        return "launch attribute cudaLaunchAttributeAccessPolicyWindow";
    case cudaLaunchAttributeCooperative:
        return "launch attribute cudaLaunchAttributeCooperative (grid-wide sync)";
    case cudaLaunchAttributeClusterDimension:
        return "launch attribute cudaLaunchAttributeClusterDimension (thread block clusters)";
    default:
        return "this launch attribute (of cudaLaunchKernelEx)";
    }
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub,
                                       void **args) {
    if (vcudart_blocked())
        return vcudart_blocked();
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        cudaLaunchAttributeID id = config->attrs[i].id;
        /* Launches run one after the other, so a programmatic dependency changes nothing. */
        if (id != cudaLaunchAttributeIgnore &&
            id != cudaLaunchAttributeProgrammaticStreamSerialization)
            return vcudart_result(vcudart_host.refuse(attribute_name(id)));
    }
    return launch(vcudart_find_kernel(stub), config->gridDim, config->blockDim, args,
                  config->dynamicSmemBytes);
}
PER_THREAD(cudaLaunchKernelExC, _ptsz)

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *stub) {
    const struct vcudart_kernel *kernel = vcudart_find_kernel(stub);
    struct vcudart_function function = {0};
    if (vcudart_blocked())
        return vcudart_blocked();
    if (!kernel)
        return vcudart_result(cudaErrorInvalidDeviceFunction);
    int error = vcudart_host.function(kernel->module, kernel->name, &function);
    memset(out, 0, sizeof *out);
    out->numRegs = function.registers;
    out->sharedSizeBytes = (size_t)function.static_shared_bytes;
    out->maxThreadsPerBlock = function.max_threads;
    out->maxDynamicSharedSizeBytes = function.max_dynamic_shared_bytes;
    out->ptxVersion = out->binaryVersion = function.binary_version;
    out->preferredShmemCarveout = -1;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *stub, enum cudaFuncAttribute attribute,
                                        int value) {
    const struct vcudart_kernel *kernel = vcudart_find_kernel(stub);
    if (vcudart_blocked())
        return vcudart_blocked();
    if (!kernel)
        return vcudart_result(cudaErrorInvalidDeviceFunction);
    return vcudart_result(
        vcudart_host.set_attribute(kernel->module, kernel->name, (int)attribute, value));
}

EXPORT cudaError_t cudaFuncSetCacheConfig(const void *stub, enum cudaFuncCache config) {
    (void)config;
    if (vcudart_blocked())
        return vcudart_blocked();
    return vcudart_result(vcudart_find_kernel(stub) ? cudaSuccess
                                                    : cudaErrorInvalidDeviceFunction);
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *stub, int threads, size_t dynamic_shared_bytes, unsigned flags) {
    (void)flags;
    const struct vcudart_kernel *kernel = vcudart_find_kernel(stub);
    if (vcudart_blocked())
        return vcudart_blocked();
    if (!kernel)
        return vcudart_result(cudaErrorInvalidDeviceFunction);
    return vcudart_result(vcudart_host.occupancy(kernel->module, kernel->name, threads,
                                                 dynamic_shared_bytes, blocks));
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *stub,
                                                                 int threads,
                                                                 size_t dynamic_shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads,
                                                                  dynamic_shared_bytes, 0);
}
