/* cuBLAS: products of matrices. */
#include "cublas.h"
#include <stdlib.h>

EXPORT int cublasCreate_v2(struct blas **out) {
    if (vcudart_blocked())
        return NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    return *out ? DONE : ALLOC_FAILED;
}
EXPORT int cublasDestroy_v2(struct blas *h) {
    free(h);
    return h ? DONE : NOT_INITIALIZED;
}
#define SETTING(name, type, field) \
    EXPORT int cublasSet##name(struct blas *h, type value) { \
        if (h) \
            h->field = value; \
        return h ? DONE : NOT_INITIALIZED; \
    } \
    EXPORT int cublasGet##name(struct blas *h, type *value) { \
        if (h) \
            *value = h->field; \
        return h ? DONE : NOT_INITIALIZED; \
    }
SETTING(Stream_v2, cudaStream_t, stream)
SETTING(PointerMode_v2, int, on_device)
SETTING(MathMode, int, math)

EXPORT int cublasSetWorkspace_v2(struct blas *h, void *workspace, size_t bytes) {
    (void)workspace;
    (void)bytes;
    return h ? DONE : NOT_INITIALIZED;
}

EXPORT const char *cublasGetStatusName(int status) {
    switch (status) {
    case DONE: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}
EXPORT const char *cublasGetStatusString(int status) { return cublasGetStatusName(status); }

static int least(int rows) { return rows > 1 ? rows : 1; }

int vcublas_gemm(const char *call, int turn_a, int turn_b, int m, int n, int k, const void *alpha, struct matrix a,
                 struct matrix b, const void *beta, struct matrix c, int count, int scale) {
    if (m < 0 || n < 0 || k < 0 || count < 0 || (unsigned)turn_a > TURNED_CONJUGATE || (unsigned)turn_b > TURNED_CONJUGATE ||
        a.pitch < least(turn_a ? k : m) || b.pitch < least(turn_b ? n : k) || c.pitch < least(m) || !alpha || !beta)
        return INVALID_VALUE;
    if (!m || !n || !count)
        return DONE;
    const int64_t words[] = {
        m, n, k, count, turn_a, turn_b, scale, address_word(alpha), address_word(beta),
        address_word(a.start), a.type, a.pitch, a.apart, address_word(b.start), b.type, b.pitch, b.apart,
        address_word(c.start), c.type, c.pitch, c.apart,
    };
    return blas_status(answer("gemm", call, words));
}

static int gemm(const char *call, struct blas *h, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
                struct matrix a, struct matrix b, const void *beta, struct matrix c, int count, int scale) {
    return h ? vcublas_gemm(call, turn_a, turn_b, m, n, k, alpha, a, b, beta, c, count, scale) : NOT_INITIALIZED;
}

/* cublasXgemm and cublasXgemmStridedBatched of one type. */
#define GEMM(name, batched, item, type) \
    EXPORT int name(struct blas *h, int ta, int tb, int m, int n, int k, const item *alpha, const item *a, int lda, \
                    const item *b, int ldb, const item *beta, item *c, int ldc) { \
        return gemm(#name, h, ta, tb, m, n, k, alpha, (struct matrix){a, type, lda, 0}, \
                    (struct matrix){b, type, ldb, 0}, beta, (struct matrix){c, type, ldc, 0}, 1, type); \
    } \
    EXPORT int batched(struct blas *h, int ta, int tb, int m, int n, int k, const item *alpha, const item *a, \
                       int lda, long long apart_a, const item *b, int ldb, long long apart_b, const item *beta, \
                       item *c, int ldc, long long apart_c, int count) { \
        return gemm(#batched, h, ta, tb, m, n, k, alpha, (struct matrix){a, type, lda, apart_a}, \
                    (struct matrix){b, type, ldb, apart_b}, beta, (struct matrix){c, type, ldc, apart_c}, count, type); \
    }
GEMM(cublasSgemm_v2, cublasSgemmStridedBatched, float, CUDA_R_32F)
GEMM(cublasDgemm_v2, cublasDgemmStridedBatched, double, CUDA_R_64F)
GEMM(cublasHgemm, cublasHgemmStridedBatched, uint16_t, CUDA_R_16F)

/* Of a cublasComputeType_t, the type of alpha and beta; -1 for none that is known. */
static int scale_of(int compute) {
    switch (compute) {
    case 64: case 65: return CUDA_R_16F;
    case 0: case 68: case 69: case 74: case 75: case 77: return CUDA_R_32F; /* 0: before CUDA 11 */
    case 70: case 71: return CUDA_R_64F;
    case 72: case 73: return CUDA_R_32I;
    default: return -1;
    }
}

EXPORT int cublasGemmEx(struct blas *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                        int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c, int type_c,
                        int ldc, int compute, int algorithm) {
    (void)algorithm;
    return gemm("cublasGemmEx", h, ta, tb, m, n, k, alpha, (struct matrix){a, type_a, lda, 0},
                (struct matrix){b, type_b, ldb, 0}, beta, (struct matrix){c, type_c, ldc, 0}, 1, scale_of(compute));
}

EXPORT int cublasGemmStridedBatchedEx(struct blas *h, int ta, int tb, int m, int n, int k, const void *alpha,
                                      const void *a, int type_a, int lda, long long apart_a, const void *b, int type_b,
                                      int ldb, long long apart_b, const void *beta, void *c, int type_c, int ldc,
                                      long long apart_c, int count, int compute, int algorithm) {
    (void)algorithm;
    return gemm("cublasGemmStridedBatchedEx", h, ta, tb, m, n, k, alpha, (struct matrix){a, type_a, lda, apart_a},
                (struct matrix){b, type_b, ldb, apart_b}, beta, (struct matrix){c, type_c, ldc, apart_c}, count,
                scale_of(compute));
}
