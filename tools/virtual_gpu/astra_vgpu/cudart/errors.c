/* The error state, and the names and words of errors. */
#include "vcudart.h"

static _Thread_local cudaError_t last_error;
static cudaError_t stuck_error;
static int attached;

struct vcudart_host vcudart_host;
struct vcudart_device vcudart_device;

EXPORT void vcudart_attach(const struct vcudart_host *host, const struct vcudart_device *device) {
    vcudart_host = *host;
    vcudart_device = *device;
    attached = 1;
}

EXPORT void vcudart_detach(void) { attached = 0; }

/* As a new process would find it. */
EXPORT void vcudart_reset(void) {
    stuck_error = cudaSuccess;
    last_error = cudaSuccess;
}

static int sticks(int error) {
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return 1;
    default:
        return 0;
    }
}

EXPORT cudaError_t vcudart_result(int error) {
    if (sticks(error))
        stuck_error = (cudaError_t)error;
    if (error)
        last_error = (cudaError_t)error;
    return (cudaError_t)error;
}

cudaError_t vcudart_blocked(void) {
    if (!attached)
        vcudart_start();
    return vcudart_result(attached ? stuck_error : cudaErrorInitializationError);
}

/* Memory is gone and a stuck error with it; the kernels of the program stay. */
EXPORT cudaError_t cudaDeviceReset(void) {
    if (!attached)
        return vcudart_blocked();
    vcudart_reset();
    return vcudart_result(vcudart_host.forget());
}

EXPORT cudaError_t cudaPeekAtLastError(void) { return last_error; }

/* Seen on an H200: this forgets a stuck error too, until the next call runs into it. */
EXPORT cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

static const struct {
    cudaError_t error;
    const char *name, *words;
} errors[] = {
#define E(name, words) {name, #name, words},
    E(cudaSuccess, "no error")
    E(cudaErrorInvalidValue, "invalid argument")
    E(cudaErrorMemoryAllocation, "out of memory")
    E(cudaErrorInitializationError, "initialization error")
    E(cudaErrorCudartUnloading, "driver shutting down")
    E(cudaErrorInvalidConfiguration, "invalid configuration argument")
    E(cudaErrorInvalidSymbol, "invalid device symbol")
    E(cudaErrorInvalidPitchValue, "invalid pitch argument")
    E(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")
    E(cudaErrorInvalidDeviceFunction, "invalid device function")
    E(cudaErrorNoDevice, "no CUDA-capable device is detected")
    E(cudaErrorInvalidDevice, "invalid device ordinal")
    E(cudaErrorInvalidKernelImage, "device kernel image is invalid")
    E(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")
    E(cudaErrorInvalidPtx, "a PTX JIT compilation failed")
    E(cudaErrorInvalidResourceHandle, "invalid resource handle")
    E(cudaErrorSymbolNotFound, "named symbol not found")
    E(cudaErrorNotReady, "device not ready")
    E(cudaErrorIllegalAddress, "an illegal memory access was encountered")
    E(cudaErrorLaunchOutOfResources, "too many resources requested for launch")
    E(cudaErrorLaunchTimeout, "the launch timed out and was terminated")
    E(cudaErrorAssert, "device-side assert triggered")
    E(cudaErrorHardwareStackError, "hardware stack error")
    E(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")
    E(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")
    E(cudaErrorIllegalState, "the operation cannot be performed in the present state")
    E(cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update")
    E(cudaErrorUnsupportedLimit, "limit is not supported on this architecture")
    E(cudaErrorIllegalInstruction, "an illegal instruction was encountered")
    E(cudaErrorMisalignedAddress, "misaligned address")
    E(cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space")
    E(cudaErrorInvalidPc, "invalid program counter")
    E(cudaErrorLaunchFailure, "unspecified launch failure")
    E(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch")
    E(cudaErrorNotPermitted, "operation not permitted")
    E(cudaErrorNotSupported, "operation not supported")
    E(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")
    E(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")
    E(cudaErrorUnknown, "unknown error")
#undef E
};

EXPORT const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
        if (errors[i].error == error)
            return errors[i].words;
    return "unrecognized error code";
}
