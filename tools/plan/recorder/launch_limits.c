/* The limits of kernels and launches: occupancy, and the error that a launch beyond one ends with.
 *
 * Occupancy is NVIDIA's own calculator (cuda_occupancy.h of the toolkit); tests hold it and the
 * errors of launches to what a driver answers. */
#include "recorder.h"
#include <cuda_occupancy.h>
#include <string.h>

enum { WARP = 32, MAX_BLOCK = 1024, REGISTER_UNIT = 256, PARTITIONS = 4, PORTABLE = 8, CLUSTERED_BLOCKS = 8 };

/* The limit that a launch exceeds: `what` is `value`, and may be from `least` to `most`. */
struct limit {
    const char *what;
    uint64_t value, least, most;
};
static struct {
    int error, number, raised;
    struct limit limit;
    char kernel[1024];
    uint64_t grid[3], block[3], dynamic;
} failure;

static int warps_by_registers(const struct kernel *kernel) {
    const int wanted = (kernel->registers * WARP + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    const int each = vcudart_device.registers_per_sm / PARTITIONS;
    return each / (wanted > REGISTER_UNIT ? wanted : REGISTER_UNIT) * PARTITIONS;
}

int max_threads(const struct kernel *kernel) {
    const int fitting = warps_by_registers(kernel) * WARP;
    return kernel->max_threads ? kernel->max_threads : fitting < MAX_BLOCK ? fitting : MAX_BLOCK;
}

static int usual_dynamic(const struct kernel *kernel) {
    const int usual = vcudart_device.shared_per_block - kernel->static_shared_bytes;
    return usual > 0 ? usual : 0;
}

int max_dynamic(const struct kernel *kernel) {
    return kernel->max_dynamic ? kernel->max_dynamic - 1 : usual_dynamic(kernel);
}

int blocks_per_sm(const struct kernel *kernel, int threads, uint64_t dynamic) {
    const struct vcudart_device *d = &vcudart_device;
    const int usual = usual_dynamic(kernel), set = max_dynamic(kernel);
    const uint64_t most = (uint64_t)(set > usual ? set : usual); /* here the driver forgives a lower limit */
    const cudaOccDeviceProp device = {
        .computeMajor = d->major, .computeMinor = d->minor, .maxThreadsPerBlock = MAX_BLOCK,
        .maxThreadsPerMultiprocessor = d->threads_per_sm, .regsPerBlock = d->registers_per_sm,
        .regsPerMultiprocessor = d->registers_per_sm, .warpSize = WARP,
        .sharedMemPerBlock = (size_t)d->shared_per_block, .sharedMemPerMultiprocessor = (size_t)d->shared_per_sm,
        .numSms = d->sms, .sharedMemPerBlockOptin = (size_t)d->shared_per_block_optin,
        .reservedSharedMemPerBlock = (size_t)d->shared_reserved_per_block,
    };
    const cudaOccFuncAttributes function = {
        .maxThreadsPerBlock = max_threads(kernel), .numRegs = kernel->registers,
        .sharedSizeBytes = (size_t)kernel->static_shared_bytes, .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, .maxDynamicSharedSizeBytes = most,
        .numBlockBarriers = kernel->barriers,
    };
    const cudaOccDeviceState state = {.cacheConfig = CACHE_PREFER_NONE, .carveoutConfig = kernel->carveout};
    cudaOccResult result;
    memset(&result, 0, sizeof result);
    if (dynamic > most)
        return 0;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, dynamic))
        return 0;
    return result.activeBlocksPerMultiprocessor;
}

static int exceeds(struct limit *limit, const char *what, uint64_t value, uint64_t least, uint64_t most) {
    if (value >= least && value <= most)
        return 0;
    *limit = (struct limit){what, value, least, most};
    return 1;
}

static int extents_exceed(struct limit *limit, const uint32_t *grid, const uint32_t *block) {
    return exceeds(limit, "grid.x", grid[0], 1, 0x7fffffff) || exceeds(limit, "grid.y", grid[1], 1, 65535) ||
           exceeds(limit, "grid.z", grid[2], 1, 65535) || exceeds(limit, "block.x", block[0], 1, 1024) ||
           exceeds(limit, "block.y", block[1], 1, 1024) || exceeds(limit, "block.z", block[2], 1, 64);
}

static int cluster_error(const struct launch *launch, const struct given *given, struct limit *limit) {
    const struct kernel *kernel = launch->kernel;
    uint64_t size = 1, most = kernel->non_portable ? 2 * PORTABLE : PORTABLE;
    if (vcudart_device.major < 9) {
        limit->what = "clusters";
        return given->clustered ? cudaErrorInvalidValue : cudaSuccess;
    }
    for (int i = 0; i < 3; ++i) {
        const uint64_t compiled = (uint64_t)kernel->cluster[i];
        const uint64_t extent = given->clustered ? given->cluster[i] : compiled ? compiled : 1;
        limit->what = "cluster extents";
        if (!extent || (given->clustered && compiled && extent != compiled) || launch->grid[i] % extent)
            return cudaErrorInvalidClusterSize;
        size *= extent;
    }
    if (kernel->max_cluster && most > (uint64_t)kernel->max_cluster)
        most = (uint64_t)kernel->max_cluster;
    return exceeds(limit, "blocks of a cluster", size, 1, most) ? cudaErrorInvalidClusterSize : cudaSuccess;
}

/* Blocks of a cooperative launch that run at once. A multiprocessor holds at most 8 blocks of
 * clusters (cuOccupancyMaxActiveClusters on an H200, driver 580). Of clusters of 4 and more the bound
 * is up to a sixth too high: how many run at once depends on how a GPU's multiprocessors are grouped. */
static uint64_t most_at_once(const struct launch *launch, const struct given *given, int threads) {
    const struct kernel *kernel = launch->kernel;
    const int clusters = given->clustered || kernel->cluster[0], each = blocks_per_sm(kernel, threads, launch->dynamic);
    return (uint64_t)(clusters && each > CLUSTERED_BLOCKS ? CLUSTERED_BLOCKS : each) * (uint64_t)vcudart_device.sms;
}

/* In the order in which the driver looks: seen on an H100 and an H200, driver 580, CUDA 13.0. A block
 * or grid beyond its limits is an invalid value for cudaLaunchKernel, too; it was an invalid
 * configuration (9) for the runtimes before. */
static int first_error(const struct launch *launch, const struct given *given, struct limit *limit) {
    const struct kernel *kernel = launch->kernel;
    const uint64_t optin = (uint64_t)vcudart_device.shared_per_block_optin;
    const uint64_t fixed = (uint64_t)kernel->static_shared_bytes;
    const uint64_t fitting = (uint64_t)warps_by_registers(kernel) * WARP;
    if (extents_exceed(limit, launch->grid, launch->block))
        return cudaErrorInvalidValue;
    const uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (exceeds(limit, "threads of a block", threads, 1, MAX_BLOCK))
        return cudaErrorInvalidValue;
    if (kernel->max_threads && exceeds(limit, "threads by launch bounds", threads, 1, (uint64_t)kernel->max_threads))
        return cudaErrorInvalidValue;
    const int error = cluster_error(launch, given, limit);
    if (error)
        return error;
    if (launch->cooperative &&
        exceeds(limit, "blocks of a cooperative launch", blocks, 1, most_at_once(launch, given, (int)threads)))
        return cudaErrorCooperativeLaunchTooLarge;
    if (exceeds(limit, "dynamic shared memory", launch->dynamic, 0, (uint64_t)max_dynamic(kernel)) ||
        exceeds(limit, "shared memory", fixed + launch->dynamic, 0, optin))
        return cudaErrorInvalidValue;
    if (exceeds(limit, "threads by registers", threads, 1, fitting))
        return cudaErrorLaunchOutOfResources;
    return cudaSuccess;
}

int launch_error(const struct launch *launch, const struct given *given) {
    struct limit limit = {.what = ""};
    const int error = first_error(launch, given, &limit);
    if (!error || failure.error)
        return error;
    failure.error = error;
    failure.number = nodes_begun() + 1;
    failure.limit = limit;
    failure.raised = launch->kernel->max_dynamic != 0;
    failure.dynamic = launch->dynamic;
    strncpy(failure.kernel, launch->kernel->name, sizeof failure.kernel - 1);
    for (int i = 0; i < 3; ++i) {
        failure.grid[i] = launch->grid[i];
        failure.block[i] = launch->block[i];
    }
    return error;
}

void forget_failure(void) { memset(&failure, 0, sizeof failure); }

void report_failure(void) {
    const char *(*text_of)(int);
    if (!failure.error)
        return;
    *(void **)&text_of = next_symbol("cudaGetErrorString");
    fprintf(report, ",\"failed\":{\"number\":%d,\"code\":%d,\"text\":", failure.number, failure.error);
    put_text(text_of(failure.error));
    fputs(",\"kernel\":", report);
    put_text(failure.kernel);
    put_numbers("grid", failure.grid, 3);
    put_numbers("block", failure.block, 3);
    fprintf(report, ",\"dynamic_shared_bytes\":%llu,\"limit\":", (unsigned long long)failure.dynamic);
    put_text(failure.limit.what);
    fprintf(report, ",\"value\":%llu,\"least\":%llu,\"most\":%llu,\"raised\":%s}",
            (unsigned long long)failure.limit.value, (unsigned long long)failure.limit.least,
            (unsigned long long)failure.limit.most, failure.raised ? "true" : "false");
}
