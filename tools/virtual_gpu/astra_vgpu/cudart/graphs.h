/* A graph and its nodes. */
#ifndef GRAPHS_H
#define GRAPHS_H
#include "vcudart.h"

struct graph;
struct node {
    enum cudaGraphNodeType type;
    struct graph *graph, *child;
    const struct node *origin; /* of an instantiated graph: what it was made from */
    struct node **after;       /* it runs after these */
    size_t count;
    int enabled;
    uint64_t noted; /* Python's number for what it does; 0 where that stands here */
    struct cudaHostNodeParams host;
    struct cudaMemsetParams fill;
    struct cudaMemcpy3DParms copy;
    cudaEvent_t event;
};
struct graph {
    struct node **nodes;
    size_t count;
    struct node **order; /* the nodes as they run; of an instantiated graph */
};

struct node *vcudart_add_node(struct graph *graph, enum cudaGraphNodeType type);
cudaError_t vcudart_new_node(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                             enum cudaGraphNodeType type, struct node **made);
struct node *vcudart_node_in(cudaGraphExec_t exec, cudaGraphNode_t node);
void vcudart_take_action(struct node *node, const struct node *from);
int vcudart_fill_rows(const struct cudaMemsetParams *fill);
int vcudart_copy_box(const struct cudaMemcpy3DParms *copy);

#endif
