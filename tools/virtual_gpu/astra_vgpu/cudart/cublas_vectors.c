/* cuBLAS: operations on vectors (level 1), and of a vector and a matrix (level 2) as products of matrices. */
#include "cublas.h"

struct operation {
    const char *call;
    int type, has_y;
};

/* alpha and result may be NULL where the operation has none. */
static int vectors(struct operation what, struct blas *h, int n, const void *alpha, const void *x, int x_apart,
                   const void *y, int y_apart, void *result) {
    if (!h)
        return NOT_INITIALIZED;
    if (x_apart <= 0 || (what.has_y && y_apart <= 0))
        return blas_status(vcudart_result(vcudart_host.refuse("cuBLAS with an increment below 1")));
    if (n <= 0 && !result)
        return DONE;
    const int64_t words[] = {
        what.type, n > 0 ? n : 0, address_word(x), x_apart, what.has_y ? address_word(y) : 0, y_apart,
        address_word(alpha), address_word(result), h->on_device,
    };
    return blas_status(answer("vector", what.call, words));
}

/* y = alpha op(A) x + beta y: the row y is the row x times op(A) turned. */
static int gemv(const char *call, struct blas *h, int turn, int m, int n, const void *alpha, struct matrix a,
                struct matrix x, const void *beta, struct matrix y) {
    const int rows = turn ? n : m, columns = turn ? m : n;
    if (!h)
        return NOT_INITIALIZED;
    if (x.pitch < 1 || y.pitch < 1)
        return blas_status(vcudart_result(vcudart_host.refuse("cuBLAS with an increment below 1")));
    return vcublas_gemm(call, TURNED_NOT, turn ? TURNED_NOT : TURNED, 1, rows, columns, alpha, x, a, beta, y, 1, a.type);
}

/* A = alpha x y' + A */
static int ger(const char *call, struct blas *h, int m, int n, const void *alpha, struct matrix x, struct matrix y,
               const void *one, struct matrix a) {
    if (!h)
        return NOT_INITIALIZED;
    if (x.pitch < 1 || y.pitch < 1)
        return blas_status(vcudart_result(vcudart_host.refuse("cuBLAS with an increment below 1")));
    return vcublas_gemm(call, TURNED, TURNED_NOT, m, n, 1, alpha, x, y, one, a, 1, a.type);
}

#define OPERATIONS(letter, small, item, type) \
    static const item one_##letter = 1; \
    EXPORT int cublas##letter##axpy_v2(struct blas *h, int n, const item *alpha, const item *x, int incx, item *y, int incy) { \
        return vectors((struct operation){"cublas" #letter "axpy", type, 1}, h, n, alpha, x, incx, y, incy, NULL); \
    } \
    EXPORT int cublas##letter##copy_v2(struct blas *h, int n, const item *x, int incx, item *y, int incy) { \
        return vectors((struct operation){"cublas" #letter "copy", type, 1}, h, n, NULL, x, incx, y, incy, NULL); \
    } \
    EXPORT int cublas##letter##swap_v2(struct blas *h, int n, item *x, int incx, item *y, int incy) { \
        return vectors((struct operation){"cublas" #letter "swap", type, 1}, h, n, NULL, x, incx, y, incy, NULL); \
    } \
    EXPORT int cublas##letter##scal_v2(struct blas *h, int n, const item *alpha, item *x, int incx) { \
        return vectors((struct operation){"cublas" #letter "scal", type, 0}, h, n, alpha, x, incx, NULL, 0, NULL); \
    } \
    EXPORT int cublas##letter##dot_v2(struct blas *h, int n, const item *x, int incx, const item *y, int incy, item *result) { \
        return vectors((struct operation){"cublas" #letter "dot", type, 1}, h, n, NULL, x, incx, y, incy, result); \
    } \
    EXPORT int cublas##letter##nrm2_v2(struct blas *h, int n, const item *x, int incx, item *result) { \
        return vectors((struct operation){"cublas" #letter "nrm2", type, 0}, h, n, NULL, x, incx, NULL, 0, result); \
    } \
    EXPORT int cublas##letter##asum_v2(struct blas *h, int n, const item *x, int incx, item *result) { \
        return vectors((struct operation){"cublas" #letter "asum", type, 0}, h, n, NULL, x, incx, NULL, 0, result); \
    } \
    EXPORT int cublasI##small##amax_v2(struct blas *h, int n, const item *x, int incx, int *result) { \
        return vectors((struct operation){"cublasI" #small "amax", type, 0}, h, n, NULL, x, incx, NULL, 0, result); \
    } \
    EXPORT int cublasI##small##amin_v2(struct blas *h, int n, const item *x, int incx, int *result) { \
        return vectors((struct operation){"cublasI" #small "amin", type, 0}, h, n, NULL, x, incx, NULL, 0, result); \
    } \
    EXPORT int cublas##letter##gemv_v2(struct blas *h, int turn, int m, int n, const item *alpha, const item *a, int lda, \
                                       const item *x, int incx, const item *beta, item *y, int incy) { \
        return gemv("cublas" #letter "gemv", h, turn, m, n, alpha, (struct matrix){a, type, lda, 0}, \
                    (struct matrix){x, type, incx, 0}, beta, (struct matrix){y, type, incy, 0}); \
    } \
    EXPORT int cublas##letter##ger_v2(struct blas *h, int m, int n, const item *alpha, const item *x, int incx, \
                                      const item *y, int incy, item *a, int lda) { \
        return ger("cublas" #letter "ger", h, m, n, alpha, (struct matrix){x, type, incx, 0}, \
                   (struct matrix){y, type, incy, 0}, &one_##letter, (struct matrix){a, type, lda, 0}); \
    }
OPERATIONS(S, s, float, CUDA_R_32F)
OPERATIONS(D, d, double, CUDA_R_64F)
