/* Registration of kernels and variables, and the three ways in which host code launches. */
#include "vcudart.h"
#include <stdlib.h>
#include <string.h>

struct fatbin;

struct kernel_entry {
    const void *stub;
    char *name;
    const struct fatbin *fatbin;
    struct kernel_entry *next;
};

struct variable {
    const void *host;
    char *name;
    const struct fatbin *fatbin;
    void **managed; /* where host code finds the address of a __managed__ one */
    struct variable *next;
};

/* One registered binary; `module` is Python's number for the library that it came with, or for what it
 * read in the binary itself, at `data`. */
struct fatbin {
    int module;
    uint64_t data;
    struct fatbin *next;
};

/* What nvcc's host code registers. */
struct fatbin_wrapper {
    int magic, version;
    const void *data;
};

static struct fatbin *fatbins;
static struct kernel_entry *kernels;
static struct variable *variables;
enum { NO_MODULE = -1 };

static void *take(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

static char *copy_of(const char *name) {
    char *copy = take(strlen(name) + 1);
    return strcpy(copy, name);
}

EXPORT void **__cudaRegisterFatBinary(void *binary) {
    const struct fatbin_wrapper *wrapper = binary;
    struct fatbin *fatbin = take(sizeof *fatbin);
    *fatbin = (struct fatbin){NO_MODULE, (uint64_t)(uintptr_t)wrapper->data, fatbins};
    fatbins = fatbin;
    return (void **)fatbin;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* The number of a binary's module, which is read now if nobody has adopted it. */
static __attribute__((noinline)) int module_of(struct fatbin *fatbin) {
    vcudart_start();
    if (fatbin->module == NO_MODULE && vcudart_host.read)
        fatbin->module = vcudart_host.read(fatbin->data);
    return fatbin->module;
}

/* Python calls this after it loaded a library: what has registered since becomes that module. */
EXPORT int vcudart_adopt(int module) {
    int adopted = 0;
    for (struct fatbin *fatbin = fatbins; fatbin; fatbin = fatbin->next)
        if (fatbin->module == NO_MODULE) {
            fatbin->module = module;
            ++adopted;
        }
    return adopted;
}

EXPORT void __cudaRegisterFunction(void **handle, const char *stub, char *function,
                                   const char *name, int thread_limit, void *thread, void *block,
                                   void *block_dim, void *grid_dim, int *warp_size) {
    (void)function;
    (void)thread_limit;
    (void)thread;
    (void)block;
    (void)block_dim;
    (void)grid_dim;
    (void)warp_size;
    struct kernel_entry *kernel = take(sizeof *kernel);
    *kernel = (struct kernel_entry){stub, copy_of(name), (struct fatbin *)handle, kernels};
    kernels = kernel;
}

EXPORT void __cudaRegisterVar(void **handle, char *host, char *address, const char *name,
                              int external, size_t bytes, int constant, int global) {
    (void)address;
    (void)external;
    (void)bytes;
    (void)constant;
    (void)global;
    struct variable *variable = take(sizeof *variable);
    *variable = (struct variable){host, copy_of(name), (struct fatbin *)handle, NULL, variables};
    variables = variable;
}

EXPORT void __cudaRegisterManagedVar(void **handle, void **host, char *address, const char *name,
                                     int external, size_t bytes, int constant, int global) {
    __cudaRegisterVar(handle, (char *)host, address, name, external, bytes, constant, global);
    variables->managed = host;
}

/* Host code calls it before it first touches a __managed__ variable. */
EXPORT char __cudaInitModule(void **handle) {
    vcudart_start();
    for (const struct variable *variable = variables; variable; variable = variable->next) {
        uint64_t address = 0, extent = 0;
        if (!variable->managed || (void **)variable->fatbin != handle)
            continue;
        if (vcudart_host.symbol(module_of((struct fatbin *)variable->fatbin), variable->name, &address, &extent))
            return 0;
        *variable->managed = (void *)(uintptr_t)address;
    }
    return 1;
}

/* Runs when a library is unloaded, at the latest at exit: Python may be gone by then. */
EXPORT void __cudaUnregisterFatBinary(void **handle) {
    struct fatbin *fatbin = (struct fatbin *)handle;
    for (struct kernel_entry **link = &kernels, *kernel; (kernel = *link);) {
        if (kernel->fatbin != fatbin) {
            link = &kernel->next;
            continue;
        }
        *link = kernel->next;
        free(kernel->name);
        free(kernel);
    }
    for (struct variable **link = &variables, *variable; (variable = *link);) {
        if (variable->fatbin != fatbin) {
            link = &variable->next;
            continue;
        }
        *link = variable->next;
        free(variable->name);
        free(variable);
    }
    for (struct fatbin **link = &fatbins; *link; link = &(*link)->next)
        if (*link == fatbin) {
            *link = fatbin->next;
            break;
        }
    free(fatbin);
}

static const struct kernel_entry *find_kernel(const void *stub) {
    for (const struct kernel_entry *kernel = kernels; kernel; kernel = kernel->next)
        if (kernel->stub == stub) {
            if (kernel->fatbin->module == NO_MODULE)
                module_of((struct fatbin *)kernel->fatbin);
            return kernel;
        }
    return NULL;
}

cudaError_t vcudart_find_symbol(const void *host, uint64_t *address, uint64_t *bytes) {
    for (const struct variable *variable = variables; variable; variable = variable->next)
        if (variable->host == host)
            return vcudart_host.symbol(module_of((struct fatbin *)variable->fatbin), variable->name, address, bytes);
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

static cudaError_t launch(const struct kernel_entry *kernel, dim3 grid, dim3 block, void **args,
                          size_t dynamic_shared_bytes, int cooperative) {
    RETURN_IF_BLOCKED;
    if (!kernel)
        return vcudart_result(UNKNOWN_FUNCTION);
    const uint32_t grid_xyz[3] = {grid.x, grid.y, grid.z};
    const uint32_t block_xyz[3] = {block.x, block.y, block.z};
    const int error = vcudart_host.launch(kernel->fatbin->module, kernel->name, grid_xyz, block_xyz,
                                          dynamic_shared_bytes, args, cooperative);
    if (!error && vcudart_capturing())
        return vcudart_result(vcudart_captured(cudaGraphNodeTypeKernel, NULL, NULL));
    return vcudart_result(error);
}

/* CUDA 13: a stub fetches its handle once and launches by it. */
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *stub) {
    *handle = (cudaKernel_t)find_kernel(stub);
    return *handle ? cudaSuccess : vcudart_result(UNKNOWN_FUNCTION);
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void **args,
                                      size_t dynamic_shared_bytes, cudaStream_t stream) {
    vcudart_asked(stream);
    return launch((const struct kernel_entry *)handle, grid, block, args, dynamic_shared_bytes, 0);
}
PER_THREAD(__cudaLaunchKernel, _ptsz)

EXPORT cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args,
                                    size_t dynamic_shared_bytes, cudaStream_t stream) {
    vcudart_asked(stream);
    return launch(find_kernel(stub), grid, block, args, dynamic_shared_bytes, 0);
}
PER_THREAD(cudaLaunchKernel, _ptsz)

EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *stub, dim3 grid, dim3 block, void **args,
                                               size_t dynamic_shared_bytes, cudaStream_t stream) {
    vcudart_asked(stream);
    return launch(find_kernel(stub), grid, block, args, dynamic_shared_bytes, 1);
}
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz)

static const char *attribute_name(cudaLaunchAttributeID id) {
    switch (id) {
    case cudaLaunchAttributeAccessPolicyWindow:
        return "launch attribute cudaLaunchAttributeAccessPolicyWindow";
    case cudaLaunchAttributeClusterDimension:
        return "launch attribute cudaLaunchAttributeClusterDimension (thread block clusters)";
    default:
        return "this launch attribute (of cudaLaunchKernelEx)";
    }
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub,
                                       void **args) {
    RETURN_IF_BLOCKED;
    const struct kernel_entry *kernel = find_kernel(stub);
    int cooperative = 0;
    const int error = vcudart_host.attributes ? vcudart_host.attributes(config->attrs, config->numAttrs) : 0;
    if (error)
        return vcudart_result(error);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        cudaLaunchAttributeID id = config->attrs[i].id;
        if (id == cudaLaunchAttributeCooperative) {
            cooperative = config->attrs[i].val.cooperative != 0;
            continue;
        }
        /* Launches run one after the other, so a programmatic dependency changes nothing here. */
        if (id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            if (kernel && config->attrs[i].val.programmaticStreamSerializationAllowed)
                vcudart_hurry(kernel->name);
            continue;
        }
        if (id != cudaLaunchAttributeIgnore && !vcudart_host.attributes)
            return vcudart_result(vcudart_host.refuse(attribute_name(id)));
    }
    vcudart_asked(config->stream);
    return launch(kernel, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                  cooperative);
}
PER_THREAD(cudaLaunchKernelExC, _ptsz)

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *stub) {
    const struct kernel_entry *kernel = find_kernel(stub);
    struct vcudart_function function = {0};
    RETURN_IF_BLOCKED;
    if (!kernel)
        return vcudart_result(UNKNOWN_FUNCTION);
    int error = vcudart_host.function(kernel->fatbin->module, kernel->name, &function);
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
    const struct kernel_entry *kernel = find_kernel(stub);
    RETURN_IF_BLOCKED;
    if (!kernel)
        return vcudart_result(UNKNOWN_FUNCTION);
    /* Seen on an H200: cudaGetLastError does not tell of a value that is refused. */
    const int error = vcudart_host.set_attribute(kernel->fatbin->module, kernel->name, (int)attribute, value);
    return error == cudaErrorInvalidValue ? error : vcudart_result(error);
}

EXPORT cudaError_t cudaFuncSetCacheConfig(const void *stub, enum cudaFuncCache config) {
    (void)config;
    RETURN_IF_BLOCKED;
    return vcudart_result(find_kernel(stub) ? cudaSuccess
                                                    : UNKNOWN_FUNCTION);
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *stub, int threads, size_t dynamic_shared_bytes, unsigned flags) {
    (void)flags;
    const struct kernel_entry *kernel = find_kernel(stub);
    RETURN_IF_BLOCKED;
    if (!kernel)
        return vcudart_result(UNKNOWN_FUNCTION);
    return vcudart_result(vcudart_host.occupancy(kernel->fatbin->module, kernel->name, threads,
                                                 dynamic_shared_bytes, blocks));
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *stub,
                                                                 int threads,
                                                                 size_t dynamic_shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads,
                                                                  dynamic_shared_bytes, 0);
}
