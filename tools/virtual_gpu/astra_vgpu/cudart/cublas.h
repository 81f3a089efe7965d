/* What the files of cuBLAS share. Its headers are not needed here: enums are numbers of its ABI. */
#ifndef CUBLAS_H
#define CUBLAS_H
#include "libraries.h"
#include <library_types.h>

/* Of cuBLAS: cublasStatus_t and cublasOperation_t as numbers of its ABI. */
enum { DONE = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { TURNED_NOT, TURNED, TURNED_CONJUGATE };
struct blas {
    cudaStream_t stream;
    int on_device, math; /* on_device: alpha, beta and results are pointers to device memory */
};
/* One of several matrices in columns, each `apart` elements behind the one before. */
struct matrix {
    const void *start;
    int type, pitch; /* type: cudaDataType_t */
    long long apart;
};
static inline int blas_status(int error) {
    return error == cudaErrorNotSupported ? NOT_SUPPORTED : error ? EXECUTION_FAILED : DONE;
}
/* c = alpha a b + beta c for each of `count`; scale: the type of alpha and beta. A cublasStatus_t. */
int vcublas_gemm(const char *call, int turn_a, int turn_b, int m, int n, int k, const void *alpha, struct matrix a,
                 struct matrix b, const void *beta, struct matrix c, int count, int scale);

#endif
