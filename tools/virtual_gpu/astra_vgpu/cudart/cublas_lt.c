/* cuBLASLt: plain products of matrices, in columns or rows; no epilogues, scales or planes. */
#include "cublas.h"
#include <stdlib.h>
#include <string.h>

/* Attributes of an operation, and of a matrix. */
enum { COMPUTE_TYPE, SCALE_TYPE, POINTER_MODE, TURN_A, TURN_B, TURN_C, FILL_MODE, EPILOGUE, BIAS_POINTER, KNOWN };
enum { TYPE, ORDER, ROWS, COLUMNS, PITCH, BATCH_COUNT, BATCH_OFFSET, PLANE_OFFSET };
enum { IN_COLUMNS, IN_ROWS };
enum { NO_EPILOGUE = 1, FULL = 2, ATTRIBUTES = 64 };
struct description {
    int64_t value[ATTRIBUTES]; /* by number, each in the first bytes */
};
struct heuristic { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

static int set(struct description *of, unsigned attribute, const void *value, size_t bytes) {
    if (!of || !value || attribute >= ATTRIBUTES || bytes > sizeof *of->value)
        return INVALID_VALUE;
    of->value[attribute] = 0;
    memcpy(&of->value[attribute], value, bytes);
    return DONE;
}
static int get(const struct description *of, unsigned attribute, void *value, size_t bytes, size_t *written) {
    if (!of || !value || attribute >= ATTRIBUTES || bytes > sizeof *of->value)
        return INVALID_VALUE;
    memcpy(value, &of->value[attribute], bytes);
    if (written)
        *written = bytes;
    return DONE;
}
static int gone(void *what) {
    free(what);
    return DONE;
}

EXPORT int cublasLtCreate(struct blas **out) {
    *out = vcudart_blocked() ? NULL : calloc(1, sizeof **out);
    return *out ? DONE : NOT_INITIALIZED;
}
EXPORT int cublasLtDestroy(struct blas *h) { return gone(h); }

EXPORT int cublasLtMatmulPreferenceCreate(struct description **out) {
    *out = calloc(1, sizeof **out);
    return *out ? DONE : ALLOC_FAILED;
}
EXPORT int cublasLtMatmulDescCreate(struct description **out, int compute, int scale) {
    if (cublasLtMatmulPreferenceCreate(out))
        return ALLOC_FAILED;
    (*out)->value[COMPUTE_TYPE] = compute;
    (*out)->value[SCALE_TYPE] = scale;
    (*out)->value[EPILOGUE] = NO_EPILOGUE;
    (*out)->value[FILL_MODE] = FULL;
    return DONE;
}
EXPORT int cublasLtMatrixLayoutCreate(struct description **out, int type, uint64_t rows, uint64_t columns, int64_t pitch) {
    if (cublasLtMatmulPreferenceCreate(out))
        return ALLOC_FAILED;
    (*out)->value[TYPE] = type;
    (*out)->value[ROWS] = (int64_t)rows;
    (*out)->value[COLUMNS] = (int64_t)columns;
    (*out)->value[PITCH] = pitch;
    (*out)->value[BATCH_COUNT] = 1;
    return DONE;
}
#define DESCRIPTION(name) \
    EXPORT int cublasLt##name##Destroy(struct description *of) { return gone(of); } \
    EXPORT int cublasLt##name##SetAttribute(struct description *of, unsigned attribute, const void *value, size_t bytes) { \
        return set(of, attribute, value, bytes); \
    } \
    EXPORT int cublasLt##name##GetAttribute(const struct description *of, unsigned attribute, void *value, size_t bytes, \
                                            size_t *written) { \
        return get(of, attribute, value, bytes, written); \
    }
DESCRIPTION(MatmulDesc)
DESCRIPTION(MatrixLayout)
DESCRIPTION(MatmulPreference)

/* One algorithm, for whatever is asked. */
EXPORT int cublasLtMatmulAlgoGetHeuristic(struct blas *h, const struct description *operation, const struct description *a,
                                          const struct description *b, const struct description *c,
                                          const struct description *d, const struct description *preference, int wanted,
                                          struct heuristic *found, int *count) {
    (void)preference;
    if (!h || !operation || !a || !b || !c || !d || wanted < 1 || !found || !count)
        return INVALID_VALUE;
    memset(found, 0, sizeof *found);
    found->waves = 1;
    *count = 1;
    return DONE;
}

/* What is not plain; NULL for nothing. */
static const char *not_plain(const struct description *operation, const struct description *const *layouts) {
    for (int i = KNOWN; i < ATTRIBUTES; ++i)
        if (operation->value[i])
            return "cublasLtMatmul with scales or other attributes of its operation";
    if (operation->value[EPILOGUE] != NO_EPILOGUE || operation->value[BIAS_POINTER])
        return "cublasLtMatmul with an epilogue";
    if (operation->value[TURN_C] || operation->value[FILL_MODE] != FULL || operation->value[POINTER_MODE] > 1)
        return "cublasLtMatmul with C turned, a fill mode or vectors of alpha";
    for (int i = 0; i < 4; ++i)
        if (layouts[i]->value[ORDER] > IN_ROWS || layouts[i]->value[PLANE_OFFSET])
            return "cublasLtMatmul of matrices that lie neither in columns nor in rows";
    if (layouts[2]->value[ORDER] != layouts[3]->value[ORDER])
        return "cublasLtMatmul with C in another order than D";
    return NULL;
}

static struct matrix placed(const void *start, const struct description *layout) {
    return (struct matrix){start, (int)layout->value[TYPE], (int)layout->value[PITCH], layout->value[BATCH_OFFSET]};
}

/* Only D is written: where C lies elsewhere, beta has to be 0 (all bits are, in any type). */
static int leaves_c(const struct description *operation, const void *beta) {
    static const double zero = 0;
    const int64_t scale = operation->value[SCALE_TYPE];
    return !operation->value[POINTER_MODE] && !memcmp(beta, &zero, scale == CUDA_R_64F ? 8 : scale == CUDA_R_16F ? 2 : 4);
}

EXPORT int cublasLtMatmul(struct blas *h, const struct description *operation, const void *alpha, const void *a,
                          const struct description *layout_a, const void *b, const struct description *layout_b,
                          const void *beta, const void *c, const struct description *layout_c, void *d,
                          const struct description *layout_d, const void *algorithm, void *workspace, size_t bytes,
                          cudaStream_t stream) {
    (void)algorithm;
    (void)workspace;
    (void)bytes;
    (void)stream;
    if (!h)
        return NOT_INITIALIZED;
    if (!operation || !layout_a || !layout_b || !layout_c || !layout_d || !alpha || !beta)
        return INVALID_VALUE;
    const char *unknown = not_plain(operation, (const struct description *[]){layout_a, layout_b, layout_c, layout_d});
    if (!unknown && c != d && !leaves_c(operation, beta))
        unknown = "cublasLtMatmul with D apart from C and a beta";
    if (unknown)
        return blas_status(vcudart_result(vcudart_host.refuse(unknown)));
    const int turn_a = operation->value[TURN_A] != TURNED_NOT, turn_b = operation->value[TURN_B] != TURNED_NOT;
    const int64_t *const of_a = layout_a->value, *const of_b = layout_b->value, *const of_d = layout_d->value;
    const int64_t m = of_d[ROWS], n = of_d[COLUMNS], k = turn_a ? of_a[ROWS] : of_a[COLUMNS], count = of_d[BATCH_COUNT];
    if (m != (turn_a ? of_a[COLUMNS] : of_a[ROWS]) || n != (turn_b ? of_b[ROWS] : of_b[COLUMNS]) ||
        k != (turn_b ? of_b[COLUMNS] : of_b[ROWS]) || of_a[BATCH_COUNT] != count || of_b[BATCH_COUNT] != count)
        return INVALID_VALUE;
    /* A matrix in rows is its own, turned, in columns. */
    const int other_a = turn_a ^ (of_a[ORDER] == IN_ROWS), other_b = turn_b ^ (of_b[ORDER] == IN_ROWS);
    const struct matrix left = placed(a, layout_a), right = placed(b, layout_b), result = placed(d, layout_d);
    const int scale = (int)operation->value[SCALE_TYPE];
    if (of_d[ORDER] == IN_ROWS)
        return vcublas_gemm("cublasLtMatmul", !other_b, !other_a, (int)n, (int)m, (int)k, alpha, right, left, beta,
                            result, (int)count, scale);
    return vcublas_gemm("cublasLtMatmul", other_a, other_b, (int)m, (int)n, (int)k, alpha, left, right, beta, result,
                        (int)count, scale);
}
