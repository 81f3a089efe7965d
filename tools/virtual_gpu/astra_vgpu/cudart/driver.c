/* What leads past the runtime to the driver, or asks how a GPU's multiprocessors are grouped: the
 * virtual GPU has neither. A recorder of launch plans answers some of it itself. */
#include "vcudart.h"

EXPORT cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *result) {
    (void)name;
    (void)flags;
    (void)result;
    RETURN_IF_BLOCKED;
    *function = NULL;
    return vcudart_result(vcudart_host.refuse("cudaGetDriverEntryPoint"));
}
PER_THREAD(cudaGetDriverEntryPoint, _ptsz)

#if CUDART_VERSION >= 12050
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result) {
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, result);
}
PER_THREAD(cudaGetDriverEntryPointByVersion, _ptsz)
#endif

EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *kernel, const cudaLaunchConfig_t *launch) {
    (void)clusters;
    (void)kernel;
    (void)launch;
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_host.refuse("cudaOccupancyMaxActiveClusters"));
}

EXPORT cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *kernel,
                                                        const cudaLaunchConfig_t *launch) {
    (void)size;
    (void)kernel;
    (void)launch;
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_host.refuse("cudaOccupancyMaxPotentialClusterSize"));
}
