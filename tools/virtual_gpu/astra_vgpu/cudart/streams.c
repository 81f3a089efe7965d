/* Streams and events. All work is done when the call that asked for it returns, so a stream is a
 * name, and an event is the time that the device's work has taken until its recording. */
#include "vcudart.h"
#include <stdlib.h>

/* A judge may say which stream all work must go to, and ask whether some went elsewhere, or copies
 * to or from the host were asked for. */
static cudaStream_t expected;
static int expecting, strays;

/* Kernels launched so that they may begin before the work ahead of them has ended. */
enum { MAX_HURRIED = 64 };
static const char *hurried[MAX_HURRIED];
static int hurried_count, hurried_told;

EXPORT void vcudart_expect(uint64_t stream) {
    expected = (cudaStream_t)(uintptr_t)stream;
    expecting = 1;
    strays = 0;
    hurried_count = hurried_told = 0;
}

/* The next of them since vcudart_expect; NULL after the last. */
EXPORT const char *vcudart_hurried(void) {
    return hurried_told < hurried_count ? hurried[hurried_told++] : NULL;
}

void vcudart_hurry(const char *kernel) {
    for (int i = 0; i < hurried_count; ++i)
        if (hurried[i] == kernel)
            return;
    if (hurried_count < MAX_HURRIED)
        hurried[hurried_count++] = kernel;
}

EXPORT int vcudart_strayed(void) { return strays; }

void vcudart_stray(void) { strays += expecting; }

void vcudart_asked(cudaStream_t stream) {
    if (stream != expected)
        vcudart_stray();
}

struct stream {
    unsigned flags;
    int priority;
};

struct event {
    int recorded, untimed;
    uint64_t at_ns;
};

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    RETURN_IF_BLOCKED;
    if (flags & ~cudaStreamNonBlocking)
        return vcudart_result(cudaErrorInvalidValue);
    struct stream *stream = malloc(sizeof *stream);
    if (!stream)
        return vcudart_result(cudaErrorMemoryAllocation);
    stream->flags = flags;
    stream->priority = priority;
    *out = (cudaStream_t)stream;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    return cudaStreamCreateWithPriority(out, flags, 0);
}

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *out) {
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        return vcudart_result(cudaErrorInvalidResourceHandle);
    free((struct stream *)stream);
    return vcudart_blocked();
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_waits(stream, 0));
}
PER_THREAD(cudaStreamSynchronize, _ptsz)

EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
    (void)stream;
    return vcudart_blocked();
}
PER_THREAD(cudaStreamQuery, _ptsz)

EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    (void)stream;
    (void)event;
    (void)flags;
    return vcudart_blocked();
}
PER_THREAD(cudaStreamWaitEvent, _ptsz)

EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *out) {
    RETURN_IF_BLOCKED;
    const int made = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    *out = made ? ((struct stream *)stream)->flags : cudaStreamDefault;
    return cudaSuccess;
}
PER_THREAD(cudaStreamGetFlags, _ptsz)

EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *out) {
    RETURN_IF_BLOCKED;
    const int made = stream && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    *out = made ? ((struct stream *)stream)->priority : 0;
    return cudaSuccess;
}
PER_THREAD(cudaStreamGetPriority, _ptsz)

/* What was asked for before is done: the host's turn is now. */
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    (void)stream;
    RETURN_IF_BLOCKED;
    if (vcudart_capturing())
        return vcudart_result(vcudart_captured(cudaGraphNodeTypeHost, function, data));
    function(data);
    return cudaSuccess;
}
PER_THREAD(cudaLaunchHostFunc, _ptsz)

EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                         unsigned how) {
    (void)how;
    RETURN_IF_BLOCKED;
    callback(stream, cudaSuccess, data);
    return cudaSuccess;
}
PER_THREAD(cudaStreamAddCallback, _ptsz)

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    RETURN_IF_BLOCKED;
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return vcudart_result(cudaErrorMemoryAllocation);
    event->untimed = (flags & cudaEventDisableTiming) != 0;
    *out = (cudaEvent_t)event;
    return vcudart_result(cudaSuccess);
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free((struct event *)event);
    return vcudart_blocked();
}

EXPORT cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    struct event *event = (struct event *)handle;
    (void)stream;
    RETURN_IF_BLOCKED;
    if (!event)
        return vcudart_result(cudaErrorInvalidResourceHandle);
    event->recorded = 1;
    return vcudart_result(vcudart_host.now(&event->at_ns));
}
PER_THREAD(cudaEventRecord, _ptsz)

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    (void)event;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
    (void)event;
    return vcudart_blocked();
}

/* Milliseconds by vcudart_host.now: of a program, what a GPU is estimated to take; else of this
 * machine's clock. */
EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start_handle,
                                        cudaEvent_t end_handle) {
    const struct event *start = (const struct event *)start_handle;
    const struct event *end = (const struct event *)end_handle;
    RETURN_IF_BLOCKED;
    if (!start || !end || !start->recorded || !end->recorded || start->untimed || end->untimed)
        return vcudart_result(cudaErrorInvalidResourceHandle);
    *ms = (float)(((double)end->at_ns - (double)start->at_ns) * 1e-6);
    return vcudart_result(cudaSuccess);
}
