/* Nodes of graphs, added one by one: kernels, copies, fills, host functions, events, nothing. */
#include "graphs.h"
#include <string.h>

/* Python notes the launch with the values that its arguments have now. */
static int note_kernel(struct node *node, const struct cudaKernelNodeParams *p) {
    if (!p || !p->func || p->extra)
        return p && p->extra ? vcudart_host.refuse("a kernel node whose arguments are in `extra`") : cudaErrorInvalidValue;
    int error = vcudart_host.capture(1, NULL);
    if (error)
        return error;
    error = cudaLaunchKernel(p->func, p->gridDim, p->blockDim, p->kernelParams, p->sharedMemBytes, NULL);
    const int ended = vcudart_host.capture(0, &node->noted);
    return error ? error : ended;
}

/* A node without what it shall do is none. */
static cudaError_t kept(struct node *node, int error) {
    if (error)
        --node->graph->count;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaKernelNodeParams *p) {
    struct node *node = NULL;
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeKernel, &node);
    return error ? error : kept(node, note_kernel(node, p));
}

EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaMemcpy3DParms *p) {
    struct node *node = NULL;
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeMemcpy, &node);
    if (!error)
        node->copy = *p;
    return error;
}

static struct cudaMemcpy3DParms line(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    struct cudaMemcpy3DParms p = {0};
    p.srcPtr = (struct cudaPitchedPtr){(void *)from, bytes, bytes, 1};
    p.dstPtr = (struct cudaPitchedPtr){to, bytes, bytes, 1};
    p.extent = (struct cudaExtent){bytes, 1, 1};
    p.kind = kind;
    return p;
}

EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                            size_t count, void *to, const void *from, size_t bytes,
                                            enum cudaMemcpyKind kind) {
    const struct cudaMemcpy3DParms p = line(to, from, bytes, kind);
    return cudaGraphAddMemcpyNode(out, graph, after, count, &p);
}

EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                          size_t count, const struct cudaMemsetParams *p) {
    struct node *node = NULL;
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return vcudart_result(cudaErrorInvalidValue);
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeMemset, &node);
    if (!error)
        node->fill = *p;
    return error;
}

EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                        size_t count, const struct cudaHostNodeParams *p) {
    struct node *node = NULL;
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeHost, &node);
    if (!error)
        node->host = *p;
    return error;
}

EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                         size_t count) {
    struct node *node = NULL;
    return vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeEmpty, &node);
}

EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                               size_t count, cudaEvent_t event) {
    struct node *node = NULL;
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeEventRecord, &node);
    if (!error)
        node->event = event;
    return error;
}

/* All work is in order: there is nothing to wait for. */
EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                             size_t count, cudaEvent_t event) {
    struct node *node = NULL;
    (void)event;
    return vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeWaitEvent, &node);
}

EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    RETURN_IF_BLOCKED;
    return vcudart_result(note_kernel((struct node *)node, p));
}

EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t which,
                                                    const struct cudaKernelNodeParams *p) {
    struct node *node = vcudart_node_in(exec, which);
    RETURN_IF_BLOCKED;
    return vcudart_result(node ? note_kernel(node, p) : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t which, void *to,
                                                      const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    struct node *node = vcudart_node_in(exec, which);
    RETURN_IF_BLOCKED;
    if (!node)
        return vcudart_result(cudaErrorInvalidValue);
    node->noted = 0;
    node->copy = line(to, from, bytes, kind);
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t which,
                                                    const struct cudaMemsetParams *p) {
    struct node *node = vcudart_node_in(exec, which);
    RETURN_IF_BLOCKED;
    if (!node)
        return vcudart_result(cudaErrorInvalidValue);
    node->noted = 0;
    node->fill = *p;
    return cudaSuccess;
}

int vcudart_fill_rows(const struct cudaMemsetParams *fill) {
    char *row = fill->dst;
    const size_t bytes = fill->width * fill->elementSize;
    const size_t height = fill->height ? fill->height : 1;
    int error = cudaSuccess;
    for (size_t y = 0; y < height && !error; ++y)
        error = bytes ? vcudart_host.touch((uint64_t)(uintptr_t)(row + y * fill->pitch), bytes, VCUDART_WRITE) : cudaSuccess;
    if (error)
        return error;
    vcudart_host.open(1);
    for (size_t y = 0; y < height; ++y)
        for (size_t x = 0; x < bytes; x += fill->elementSize)
            memcpy(row + y * fill->pitch + x, &fill->value, fill->elementSize);
    vcudart_host.open(0);
    return cudaSuccess;
}
