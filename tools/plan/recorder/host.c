/* What the calls of the fake CUDA runtime mean while a launch plan is recorded. */
#include "recorder.h"
#include <string.h>

enum { MAX_DYNAMIC = 8, CARVEOUT = 9, NON_PORTABLE = 14, SCHEDULING = 15 }; /* enum cudaFuncAttribute */

int strayed;

/* Attributes of the launch that follows. */
enum { NOT_GIVEN = -2 };
static const struct given nothing = {.scheduling = NOT_GIVEN, .carveout = NOT_GIVEN};
static struct given given = {.scheduling = NOT_GIVEN, .carveout = NOT_GIVEN};

static int in_one(const struct variable *buffers, size_t count, uint64_t address, uint64_t bytes) {
    for (size_t i = 0; i < count; ++i) {
        const uint64_t offset = address - buffers[i].address;
        if (address >= buffers[i].address && offset <= buffers[i].bytes && bytes <= buffers[i].bytes - offset)
            return 1;
    }
    return 0;
}

int known_memory(uint64_t address, uint64_t bytes) {
    return in_one(request.variables, request.variable_count, address, bytes) ||
           (current && in_one(current->reserved, current->reserved_count, address, bytes));
}

/* The arguments in the cubin's layout; what lies between them holds the pattern. */
static void put_parameters(const struct kernel *kernel, void **args) {
    static unsigned char packed[1 << 15];
    memset(packed, current ? (int)(current->pattern & 255) : 0, kernel->parameter_bytes);
    for (uint32_t i = 0; i < kernel->count; ++i)
        memcpy(packed + kernel->parameters[i].offset, args[i], kernel->parameters[i].bytes);
    fputs(",\"parameters\":", report);
    put_hex(packed, kernel->parameter_bytes);
    report_maps(packed, kernel->parameter_bytes);
}

static void put_extent(const char *name, const uint32_t *sizes) {
    const uint64_t wide[3] = {sizes[0], sizes[1], sizes[2]};
    put_numbers(name, wide, 3);
}

static int launch(int module, const char *name, const uint32_t *grid, const uint32_t *block, uint64_t dynamic,
                  void **args, int cooperative) {
    const struct kernel *kernel = find_kernel(name);
    (void)module;
    if (!current)
        return refuse("a launch while the library is loaded");
    if (!kernel)
        return refuse("launching a kernel that is not in the cubin");
    const struct launch asked = {kernel, grid, block, dynamic, cooperative};
    const int error = launch_error(&asked, &given);
    if (!error && !dry && begin_node("kernel")) {
        fputs(",\"kernel\":", report);
        put_text(kernel->name);
        put_extent("grid", grid);
        put_extent("block", block);
        fprintf(report, ",\"dynamic_shared_bytes\":%llu", (unsigned long long)dynamic);
        fprintf(report, ",\"shared_carveout\":%d", given.carveout == NOT_GIVEN ? kernel->carveout : given.carveout);
        fprintf(report, ",\"cluster_scheduling\":%d", given.scheduling == NOT_GIVEN ? kernel->scheduling : given.scheduling);
        fprintf(report, ",\"programmatic\":%s", given.programmatic ? "true" : "false");
        fprintf(report, ",\"cooperative\":%s", cooperative ? "true" : "false");
        if (given.clustered)
            put_numbers("cluster", given.cluster, 3);
        put_parameters(kernel, args);
        fputs("}", report);
    }
    given = nothing;
    return error;
}

static int take_attribute(const cudaLaunchAttribute *attribute) {
    const cudaLaunchAttributeValue *value = &attribute->val;
    switch (attribute->id) {
    case cudaLaunchAttributeIgnore:
    case cudaLaunchAttributeCooperative: return cudaSuccess;
    case cudaLaunchAttributeProgrammaticStreamSerialization:
        given.programmatic = value->programmaticStreamSerializationAllowed != 0;
        return cudaSuccess;
    case cudaLaunchAttributeClusterDimension:
        given.clustered = 1;
        given.cluster[0] = value->clusterDim.x;
        given.cluster[1] = value->clusterDim.y;
        given.cluster[2] = value->clusterDim.z;
        return cudaSuccess;
    case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        given.scheduling = (int)value->clusterSchedulingPolicyPreference;
        return cudaSuccess;
#if CUDART_VERSION >= 12070
    case cudaLaunchAttributePreferredSharedMemoryCarveout:
        given.carveout = (int)value->sharedMemCarveout;
        return cudaSuccess;
#endif
    default: {
        char what[64];
        snprintf(what, sizeof what, "launch attribute %d (enum cudaLaunchAttributeID)", (int)attribute->id);
        return refuse(what);
    }
    }
}

static int attributes(const cudaLaunchAttribute *attributes, unsigned count) {
    given = nothing;
    for (unsigned i = 0; i < count; ++i)
        if (take_attribute(&attributes[i]))
            return cudaErrorNotSupported;
    return cudaSuccess;
}

static int function(int module, const char *name, struct vcudart_function *out) {
    const struct kernel *kernel = find_kernel(name);
    (void)module;
    if (!kernel)
        return UNKNOWN_FUNCTION;
    *out = (struct vcudart_function){
        .registers = kernel->registers, .static_shared_bytes = kernel->static_shared_bytes,
        .max_threads = max_threads(kernel), .max_dynamic_shared_bytes = max_dynamic(kernel),
        .binary_version = 10 * vcudart_device.major + vcudart_device.minor,
    };
    return cudaSuccess;
}

static int set_attribute(int module, const char *name, int attribute, int value) {
    struct kernel *kernel = find_kernel(name);
    (void)module;
    if (!kernel)
        return UNKNOWN_FUNCTION;
    switch (attribute) {
    case MAX_DYNAMIC:
        if (value < 0 || value > vcudart_device.shared_per_block_optin - kernel->static_shared_bytes)
            return cudaErrorInvalidValue;
        kernel->max_dynamic = value + 1;
        return cudaSuccess;
    case CARVEOUT:
        if (value < -1 || value > 100)
            return cudaErrorInvalidValue;
        kernel->carveout = value;
        return cudaSuccess;
    case NON_PORTABLE:
        kernel->non_portable = value != 0;
        return cudaSuccess;
    case SCHEDULING:
        if (value < 0 || value > 2)
            return cudaErrorInvalidValue;
        kernel->scheduling = value;
        return cudaSuccess;
    default: return refuse("this attribute of cudaFuncSetAttribute");
    }
}

static int occupancy(int module, const char *name, int threads, uint64_t dynamic, int *blocks) {
    const struct kernel *kernel = find_kernel(name);
    char fact[512];
    (void)module;
    if (!kernel)
        return UNKNOWN_FUNCTION;
    if (threads < 1)
        return cudaErrorInvalidValue;
    *blocks = blocks_per_sm(kernel, threads, dynamic);
    snprintf(fact, sizeof fact, "blocks per SM of %.300s, %d threads, %llu dynamic shared bytes", name, threads,
             (unsigned long long)dynamic);
    note_fact(fact, *blocks);
    return cudaSuccess;
}

static int symbol(int module, const char *name, uint64_t *address, uint64_t *bytes) {
    (void)module;
    for (size_t i = 0; i < request.variable_count; ++i)
        if (!strcmp(request.variables[i].name, name)) {
            *address = request.variables[i].address;
            *bytes = request.variables[i].bytes;
            return cudaSuccess;
        }
    return cudaErrorInvalidSymbol;
}

static int touch(uint64_t address, uint64_t bytes, int access) {
    (void)access;
    return known_memory(address, bytes) ? cudaSuccess : cudaErrorInvalidValue;
}

/* refused.c answers the calls that would lead to the others. */
const struct vcudart_host recorder_host = {
    .launch = launch, .symbol = symbol, .function = function, .set_attribute = set_attribute,
    .occupancy = occupancy, .touch = touch, .attributes = attributes, .refuse = (int (*)(const char *))refuse,
};
