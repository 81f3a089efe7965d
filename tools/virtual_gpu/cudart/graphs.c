/* Graphs by capture: what a stream is asked for is noted by Python instead of done, and done at each
 * launch of the graph. Graphs that are put together node by node are not known: they do not link. */
#include "vcudart.h"

static cudaStream_t captured;
static int capturing;

int vcudart_capturing(void) { return capturing; }

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    (void)mode;
    RETURN_IF_BLOCKED;
    if (capturing)
        return vcudart_result(cudaErrorIllegalState);
    int error = vcudart_host.capture(1, NULL);
    if (!error)
        capturing = 1, captured = stream;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    uint64_t graph = 0;
    RETURN_IF_BLOCKED;
    if (!capturing || stream != captured)
        return vcudart_result(cudaErrorIllegalState);
    capturing = 0;
    int error = vcudart_host.capture(0, &graph);
    *out = (cudaGraph_t)(uintptr_t)graph;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out) {
    *out = capturing && stream == captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return vcudart_blocked();
}
PER_THREAD(cudaStreamIsCapturing, _ptsz)

/* A graph is never changed after its capture, so it runs as it is. */
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                                 unsigned long long flags) {
    (void)flags;
    RETURN_IF_BLOCKED;
    *out = (cudaGraphExec_t)graph;
    return vcudart_result(graph ? cudaSuccess : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}

EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
    (void)graph, (void)stream;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    (void)stream;
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_host.replay((uint64_t)(uintptr_t)graph));
}
PER_THREAD(cudaGraphLaunch, _ptsz)

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    (void)graph;
    return vcudart_blocked();
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    (void)graph;
    return vcudart_blocked();
}
