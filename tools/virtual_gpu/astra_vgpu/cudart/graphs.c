/* Graphs: captured from a stream, or put together node by node. What a node does, Python has noted
 * (a launch with the values of its arguments, a copy), and does at each launch of the graph; fills,
 * copies of rectangles and host functions are done here. Nodes run in the order of their edges, and
 * of their making where those leave it open. */
#include "vcudart.h"
#include "graphs.h"
#include <stdlib.h>
#include <string.h>

static struct graph *captured;
static cudaStream_t captured_stream;
static enum cudaStreamCaptureMode captured_mode;
static int captured_lost;

int vcudart_capturing(void) { return captured != NULL; }

/* Seen on an H200: a call that waits for what is being captured, or that may, fails, and nothing comes of the capture. */
static int spoilt(void) {
    captured_lost = 1;
    return cudaErrorStreamCaptureUnsupported;
}
int vcudart_waits(cudaStream_t stream, int for_all) {
    return captured && (for_all || stream == captured_stream) ? spoilt() : cudaSuccess;
}
int vcudart_may_wait(void) {
    return captured && captured_mode != cudaStreamCaptureModeRelaxed ? spoilt() : cudaSuccess;
}

static void *grown(void *items, size_t count, size_t size) {
    if (count & (count - 1))
        return items;
    items = realloc(items, (count ? 2 * count : 1) * size);
    if (!items)
        abort();
    return items;
}

static void depend(struct node *node, struct node *earlier) {
    node->after = grown(node->after, node->count, sizeof *node->after);
    node->after[node->count++] = earlier;
}

struct node *vcudart_add_node(struct graph *graph, enum cudaGraphNodeType type) {
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        abort();
    node->type = type;
    node->graph = graph;
    node->enabled = 1;
    graph->nodes = grown(graph->nodes, graph->count, sizeof *graph->nodes);
    return graph->nodes[graph->count++] = node;
}

/* What has just been asked for on the captured stream becomes a node behind the one before. */
int vcudart_captured(enum cudaGraphNodeType type, cudaHostFn_t function, void *data) {
    struct node *node = vcudart_add_node(captured, type);
    if (captured->count > 1)
        depend(node, captured->nodes[captured->count - 2]);
    node->host = (struct cudaHostNodeParams){function, data};
    const int error = vcudart_host.capture(0, &node->noted);
    return error ? error : vcudart_host.capture(1, NULL);
}

EXPORT cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned flags) {
    RETURN_IF_BLOCKED;
    struct graph *graph = calloc(1, sizeof *graph);
    *out = (cudaGraph_t)graph;
    return vcudart_result(flags ? cudaErrorInvalidValue : graph ? cudaSuccess : cudaErrorMemoryAllocation);
}

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    RETURN_IF_BLOCKED;
    if (captured)
        return vcudart_result(cudaErrorIllegalState);
    captured_mode = mode;
    captured_lost = 0;
    int error = vcudart_host.capture(1, NULL);
    if (!error && (captured = calloc(1, sizeof *captured)))
        captured_stream = stream;
    return vcudart_result(error);
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    uint64_t rest = 0;
    RETURN_IF_BLOCKED;
    if (!captured || stream != captured_stream)
        return vcudart_result(cudaErrorIllegalState);
    *out = captured_lost ? NULL : (cudaGraph_t)captured;
    captured = NULL;
    const int error = vcudart_host.capture(0, &rest);
    return vcudart_result(captured_lost ? cudaErrorStreamCaptureInvalidated : error);
}

EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out) {
    const int active = captured && stream == captured_stream;
    *out = !active ? cudaStreamCaptureStatusNone
           : captured_lost ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    return vcudart_blocked();
}
PER_THREAD(cudaStreamIsCapturing, _ptsz)

static size_t place_of(const struct graph *graph, const struct node *node) {
    size_t at = 0;
    while (at < graph->count && graph->nodes[at] != node)
        ++at;
    return at;
}

static struct graph *copy_of(const struct graph *graph) {
    struct graph *copy = calloc(1, sizeof *copy);
    if (!copy)
        abort();
    for (size_t i = 0; i < graph->count; ++i) {
        struct node *node = vcudart_add_node(copy, graph->nodes[i]->type);
        *node = *graph->nodes[i];
        node->graph = copy;
        node->after = NULL;
        node->count = 0;
        node->origin = graph->nodes[i];
        node->child = node->child ? copy_of(node->child) : NULL;
    }
    for (size_t i = 0; i < graph->count; ++i)
        for (size_t j = 0; j < graph->nodes[i]->count; ++j)
            depend(copy->nodes[i], copy->nodes[place_of(graph, graph->nodes[i]->after[j])]);
    return copy;
}

static void drop(struct graph *graph) {
    for (size_t i = 0; graph && i < graph->count; ++i) {
        drop(graph->nodes[i]->child);
        free(graph->nodes[i]->after);
        free(graph->nodes[i]);
    }
    if (graph)
        free(graph->nodes);
    free(graph);
}

/* Fills `order` with the nodes in the order of their edges; 0 where they go in a circle. */
static int sorted(const struct graph *graph, struct node **order) {
    size_t done = 0;
    for (size_t before = 1; done < graph->count && before;) {
        before = 0;
        for (size_t i = 0; i < graph->count; ++i) {
            struct node *node = graph->nodes[i];
            int ready = 1;
            for (size_t k = 0; k < done; ++k)
                ready &= order[k] != node;
            for (size_t j = 0; j < node->count && ready; ++j) {
                size_t k = 0;
                while (k < done && order[k] != node->after[j])
                    ++k;
                ready &= k < done;
            }
            if (ready) {
                order[done++] = node;
                before = 1;
            }
        }
    }
    return done == graph->count;
}

static int prepare(struct graph *graph) {
    graph->order = grown(NULL, 0, (graph->count + 1) * sizeof *graph->order);
    return sorted(graph, graph->order);
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                                 unsigned long long flags) {
    (void)flags;
    RETURN_IF_BLOCKED;
    *out = NULL;
    if (!graph)
        return vcudart_result(cudaErrorInvalidValue);
    struct graph *copy = copy_of((struct graph *)graph);
    *out = (cudaGraphExec_t)copy;
    return vcudart_result(prepare(copy) ? cudaSuccess : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiateWithFlags(out, graph, flags);
}

EXPORT cudaError_t cudaGraphClone(cudaGraph_t *out, cudaGraph_t graph) {
    RETURN_IF_BLOCKED;
    *out = graph ? (cudaGraph_t)copy_of((struct graph *)graph) : NULL;
    return vcudart_result(graph ? cudaSuccess : cudaErrorInvalidValue);
}

EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
    (void)graph;
    (void)stream;
    return vcudart_blocked();
}

static int run(struct graph *graph);

static int run_node(struct node *node) {
    switch (node->type) {
    case cudaGraphNodeTypeHost:
        node->host.fn(node->host.userData);
        return cudaSuccess;
    case cudaGraphNodeTypeGraph:
        return run(node->child);
    case cudaGraphNodeTypeEventRecord:
        return cudaEventRecord(node->event, NULL);
    case cudaGraphNodeTypeMemset:
        return node->noted ? vcudart_host.replay(node->noted) : vcudart_fill_rows(&node->fill);
    case cudaGraphNodeTypeMemcpy:
        return node->noted ? vcudart_host.replay(node->noted) : vcudart_copy_box(&node->copy);
    case cudaGraphNodeTypeKernel:
        return vcudart_host.replay(node->noted);
    default:
        return cudaSuccess;
    }
}

static int run(struct graph *graph) {
    int error = graph->order || prepare(graph) ? cudaSuccess : cudaErrorInvalidValue;
    for (size_t i = 0; i < graph->count && !error; ++i)
        if (graph->order[i]->enabled)
            error = run_node(graph->order[i]);
    return error;
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    vcudart_asked(stream);
    RETURN_IF_BLOCKED;
    return vcudart_result(graph ? run((struct graph *)graph) : cudaErrorInvalidValue);
}
PER_THREAD(cudaGraphLaunch, _ptsz)

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    drop((struct graph *)graph);
    return vcudart_blocked();
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    drop((struct graph *)graph);
    return vcudart_blocked();
}

/* The instantiated graph takes what the nodes of one of the same shape do. */
EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t given, cudaGraphExecUpdateResultInfo *out) {
    struct graph *graph = (struct graph *)exec, *from = (struct graph *)given;
    RETURN_IF_BLOCKED;
    memset(out, 0, sizeof *out);
    int same = graph->count == from->count;
    for (size_t i = 0; same && i < graph->count; ++i) {
        const struct node *mine = graph->nodes[i], *other = from->nodes[i];
        same = mine->type == other->type && mine->count == other->count;
        for (size_t j = 0; same && j < mine->count; ++j)
            same = place_of(graph, mine->after[j]) == place_of(from, other->after[j]);
    }
    out->result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
    for (size_t i = 0; same && i < graph->count; ++i)
        vcudart_take_action(graph->nodes[i], from->nodes[i]);
    return vcudart_result(same ? cudaSuccess : cudaErrorGraphExecUpdateFailure);
}

void vcudart_take_action(struct node *node, const struct node *from) {
    node->noted = from->noted;
    node->host = from->host;
    node->event = from->event;
    node->fill = from->fill;
    node->copy = from->copy;
}

cudaError_t vcudart_new_node(cudaGraphNode_t *out, cudaGraph_t given, const cudaGraphNode_t *after, size_t count,
                             enum cudaGraphNodeType type, struct node **made) {
    RETURN_IF_BLOCKED;
    struct graph *graph = (struct graph *)given;
    if (!graph || !out || (count && !after))
        return vcudart_result(cudaErrorInvalidValue);
    for (size_t i = 0; i < count; ++i)
        if (place_of(graph, (struct node *)after[i]) == graph->count)
            return vcudart_result(cudaErrorInvalidValue);
    *made = vcudart_add_node(graph, type);
    for (size_t i = 0; i < count; ++i)
        depend(*made, (struct node *)after[i]);
    *out = (cudaGraphNode_t)*made;
    return cudaSuccess;
}

/* The node of an instantiated graph that was made from one of the graph. */
struct node *vcudart_node_in(cudaGraphExec_t exec, cudaGraphNode_t node) {
    const struct graph *graph = (struct graph *)exec;
    for (size_t i = 0; graph && i < graph->count; ++i)
        if (graph->nodes[i]->origin == (struct node *)node)
            return graph->nodes[i];
    return NULL;
}

EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                                              size_t count, cudaGraph_t child) {
    struct node *node = NULL;
    cudaError_t error = vcudart_new_node(out, graph, after, count, cudaGraphNodeTypeGraph, &node);
    if (!error)
        node->child = copy_of((struct graph *)child);
    return error;
}

#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                            const cudaGraphEdgeData *edges, size_t count) {
    (void)graph;
    (void)edges;
#else
EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                            size_t count) {
    (void)graph;
#endif
    RETURN_IF_BLOCKED;
    for (size_t i = 0; i < count; ++i)
        depend((struct node *)to[i], (struct node *)from[i]);
    return cudaSuccess;
}

static cudaError_t list(const struct graph *graph, cudaGraphNode_t *out, size_t *count, int roots) {
    RETURN_IF_BLOCKED;
    size_t found = 0, room = out ? *count : 0;
    for (size_t i = 0; i < graph->count; ++i)
        if (!roots || !graph->nodes[i]->count) {
            if (found < room)
                out[found] = (cudaGraphNode_t)graph->nodes[i];
            ++found;
        }
    for (size_t i = found; i < room; ++i)
        out[i] = NULL;
    *count = out && found > room ? room : found;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count) {
    return list((struct graph *)graph, out, count, 0);
}

EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count) {
    return list((struct graph *)graph, out, count, 1);
}

EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *out) {
    RETURN_IF_BLOCKED;
    *out = ((struct node *)node)->type;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t which, unsigned on) {
    struct node *node = vcudart_node_in(exec, which);
    RETURN_IF_BLOCKED;
    if (!node)
        return vcudart_result(cudaErrorInvalidValue);
    node->enabled = on != 0;
    return cudaSuccess;
}
