/* What a launcher asks about the device. The fake runtime answers, for the GPU in use; the answer
 * is the same on `cuda` and on `virtual`, and a plan names it. */
#include "recorder.h"
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name) /* of what the header's macros make of it */

enum { MAX_FACTS = 256 };
static struct {
    char *name;
    long long value;
} facts[MAX_FACTS];
static int count;

void note_fact(const char *name, long long value) {
    for (int i = 0; i < count; ++i)
        if (!strcmp(facts[i].name, name))
            return;
    if (count < MAX_FACTS && (facts[count].name = strdup(name)))
        facts[count++].value = value;
}

void report_facts(void) {
    for (int i = 0; i < count; ++i) {
        fputs("{\"kind\":\"fact\",\"name\":", report);
        put_text(facts[i].name);
        fprintf(report, ",\"value\":%lld}\n", facts[i].value);
    }
}

static const struct {
    enum cudaDeviceAttr which;
    const char *name;
} names[] = {
#define A(name) {name, #name},
    A(cudaDevAttrMaxThreadsPerBlock) A(cudaDevAttrMaxBlockDimX) A(cudaDevAttrMaxBlockDimY)
    A(cudaDevAttrMaxBlockDimZ) A(cudaDevAttrMaxGridDimX) A(cudaDevAttrMaxGridDimY) A(cudaDevAttrMaxGridDimZ)
    A(cudaDevAttrMaxSharedMemoryPerBlock) A(cudaDevAttrMaxSharedMemoryPerBlockOptin)
    A(cudaDevAttrMaxSharedMemoryPerMultiprocessor) A(cudaDevAttrReservedSharedMemoryPerBlock)
    A(cudaDevAttrMaxRegistersPerBlock) A(cudaDevAttrMaxRegistersPerMultiprocessor)
    A(cudaDevAttrTotalConstantMemory) A(cudaDevAttrWarpSize) A(cudaDevAttrClockRate)
    A(cudaDevAttrMemoryClockRate) A(cudaDevAttrGlobalMemoryBusWidth) A(cudaDevAttrL2CacheSize)
    A(cudaDevAttrMultiProcessorCount) A(cudaDevAttrMaxThreadsPerMultiProcessor)
    A(cudaDevAttrMaxBlocksPerMultiprocessor) A(cudaDevAttrComputeCapabilityMajor)
    A(cudaDevAttrComputeCapabilityMinor) A(cudaDevAttrCooperativeLaunch) A(cudaDevAttrClusterLaunch)
    A(cudaDevAttrMaxPersistingL2CacheSize)
#undef A
};

static const char *name_of(enum cudaDeviceAttr which) {
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (names[i].which == which)
            return names[i].name;
    return NULL;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) {
    cudaError_t (*next)(int *, enum cudaDeviceAttr, int) = next_symbol("cudaDeviceGetAttribute");
    const char *name = name_of(which);
    if (!name) { /* which GPU it is, what else it can do: no launch may depend on that */
        char what[64];
        snprintf(what, sizeof what, "cudaDeviceGetAttribute of attribute %d", (int)which);
        return settle(refuse(what));
    }
    const cudaError_t error = next(value, which, device);
    if (!error && which == cudaDevAttrClusterLaunch)
        *value = vcudart_device.major >= 9;
    if (!error)
        note_fact(name, *value);
    return error;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    cudaError_t (*next)(struct cudaDeviceProp *, int) = next_symbol(TEXT(cudaGetDeviceProperties));
    const cudaError_t error = next(out, device);
    if (!error) {
        out->clusterLaunch = vcudart_device.major >= 9;
        note_fact("cudaGetDeviceProperties", 0);
    }
    return error;
}

static cudaError_t version(const char *name, int *value) {
    cudaError_t (*next)(int *) = next_symbol(name);
    const cudaError_t error = next(value);
    note_fact(name, *value);
    return error;
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *value) { return version("cudaRuntimeGetVersion", value); }
EXPORT cudaError_t cudaDriverGetVersion(int *value) { return version("cudaDriverGetVersion", value); }
