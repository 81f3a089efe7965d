// cuBLAS, cuSPARSE, cuFFT, cuRAND's host side, NCCL, cuDNN and NVRTC, as far as files name them beside
// their own kernels: handles, codes, and functions that nothing defines. A call that is built is a compile error
// that names the function; where a task's flags define ASTRA_UNCALLED_LIBRARY, it comes when called.
#pragma once
#include <cuda_runtime.h>
#include <library_types.h>

#ifdef ASTRA_UNCALLED_LIBRARY
#define ASTRA_UNBUILT(name)
#else
#define ASTRA_UNBUILT(name) \
  __attribute__((error(#name "() is not implemented: it is a library's; a task is the kernels of the file")))
#endif
#define ASTRA_LIBRARY(result, name) ASTRA_UNBUILT(name) result name(...);

extern "C" {

// cuDNN and NVRTC
typedef struct cudnnContext* cudnnHandle_t;
typedef enum { CUDNN_STATUS_SUCCESS } cudnnStatus_t;
typedef struct _nvrtcProgram* nvrtcProgram;
typedef enum { NVRTC_SUCCESS } nvrtcResult;

// cuBLAS
typedef struct cublasHandle_s* cublasHandle_t;
typedef struct cublasLtHandle_s* cublasLtHandle_t;
typedef struct cublasLtMatmulDesc_s* cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout_s* cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreference_s* cublasLtMatmulPreference_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR =
  11, CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15, CUBLAS_STATUS_LICENSE_ERROR
} cublasStatus_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C } cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum {
  CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH
} cublasMath_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC, CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32I = 72, CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
ASTRA_LIBRARY(cublasStatus_t, cublasCreate)
ASTRA_LIBRARY(cublasStatus_t, cublasDestroy)
ASTRA_LIBRARY(cublasStatus_t, cublasSetStream)
ASTRA_LIBRARY(cublasStatus_t, cublasGetStream)
ASTRA_LIBRARY(cublasStatus_t, cublasSetMathMode)
ASTRA_LIBRARY(cublasStatus_t, cublasGetMathMode)
ASTRA_LIBRARY(cublasStatus_t, cublasSetWorkspace)
ASTRA_LIBRARY(cublasStatus_t, cublasSetPointerMode)
ASTRA_LIBRARY(cublasStatus_t, cublasSgemm)
ASTRA_LIBRARY(cublasStatus_t, cublasDgemm)
ASTRA_LIBRARY(cublasStatus_t, cublasHgemm)
ASTRA_LIBRARY(cublasStatus_t, cublasSgemmEx)
ASTRA_LIBRARY(cublasStatus_t, cublasGemmEx)
ASTRA_LIBRARY(cublasStatus_t, cublasSgemmBatched)
ASTRA_LIBRARY(cublasStatus_t, cublasSgemmStridedBatched)
ASTRA_LIBRARY(cublasStatus_t, cublasHgemmStridedBatched)
ASTRA_LIBRARY(cublasStatus_t, cublasGemmBatchedEx)
ASTRA_LIBRARY(cublasStatus_t, cublasGemmStridedBatchedEx)
ASTRA_LIBRARY(cublasStatus_t, cublasSgemv)
ASTRA_LIBRARY(cublasStatus_t, cublasStrsmBatched)
ASTRA_LIBRARY(cublasStatus_t, cublasLtCreate)
ASTRA_LIBRARY(cublasStatus_t, cublasLtDestroy)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmul)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulDescCreate)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulDescDestroy)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulDescSetAttribute)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatrixLayoutCreate)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatrixLayoutDestroy)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatrixLayoutSetAttribute)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulPreferenceCreate)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulPreferenceDestroy)
ASTRA_LIBRARY(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute)
ASTRA_LIBRARY(const char*, cublasGetStatusString)
ASTRA_LIBRARY(const char*, cublasGetStatusName)

// cuSPARSE
typedef struct cusparseHandle_s* cusparseHandle_t;
typedef struct cusparseMatDescr_s* cusparseMatDescr_t;
typedef struct cusparseSpMatDescr_s* cusparseSpMatDescr_t;
typedef struct cusparseDnMatDescr_s* cusparseDnMatDescr_t;
typedef enum {
  CUSPARSE_STATUS_SUCCESS, CUSPARSE_STATUS_NOT_INITIALIZED, CUSPARSE_STATUS_ALLOC_FAILED,
  CUSPARSE_STATUS_INVALID_VALUE
} cusparseStatus_t;
ASTRA_LIBRARY(cusparseStatus_t, cusparseCreate)
ASTRA_LIBRARY(cusparseStatus_t, cusparseDestroy)
ASTRA_LIBRARY(cusparseStatus_t, cusparseSetStream)
ASTRA_LIBRARY(cusparseStatus_t, cusparseCreateCsr)
ASTRA_LIBRARY(cusparseStatus_t, cusparseCreateDnMat)
ASTRA_LIBRARY(cusparseStatus_t, cusparseDestroySpMat)
ASTRA_LIBRARY(cusparseStatus_t, cusparseDestroyDnMat)
ASTRA_LIBRARY(cusparseStatus_t, cusparseSpMM)
ASTRA_LIBRARY(cusparseStatus_t, cusparseSpMM_bufferSize)
ASTRA_LIBRARY(cusparseStatus_t, cusparseSpMV)
ASTRA_LIBRARY(const char*, cusparseGetErrorString)

// cuFFT
typedef enum { CUFFT_SUCCESS, CUFFT_INVALID_PLAN, CUFFT_ALLOC_FAILED } cufftResult;
typedef enum { CUFFT_R2C = 0x2a, CUFFT_C2R = 0x2c, CUFFT_C2C = 0x29 } cufftType;
typedef int cufftHandle;
typedef float2 cufftComplex;
typedef float cufftReal;
ASTRA_LIBRARY(cufftResult, cufftPlan1d)
ASTRA_LIBRARY(cufftResult, cufftPlan2d)
ASTRA_LIBRARY(cufftResult, cufftPlanMany)
ASTRA_LIBRARY(cufftResult, cufftDestroy)
ASTRA_LIBRARY(cufftResult, cufftSetStream)
ASTRA_LIBRARY(cufftResult, cufftExecC2C)
ASTRA_LIBRARY(cufftResult, cufftExecR2C)
ASTRA_LIBRARY(cufftResult, cufftExecC2R)

// cuRAND, host side
typedef struct curandGenerator_s* curandGenerator_t;
typedef enum {
  CURAND_STATUS_SUCCESS, CURAND_STATUS_VERSION_MISMATCH = 100, CURAND_STATUS_NOT_INITIALIZED,
  CURAND_STATUS_ALLOCATION_FAILED
} curandStatus_t;
typedef enum {
  CURAND_RNG_PSEUDO_DEFAULT = 100, CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10 = 161
} curandRngType_t;
ASTRA_LIBRARY(curandStatus_t, curandCreateGenerator)
ASTRA_LIBRARY(curandStatus_t, curandDestroyGenerator)
ASTRA_LIBRARY(curandStatus_t, curandSetStream)
ASTRA_LIBRARY(curandStatus_t, curandSetPseudoRandomGeneratorSeed)
ASTRA_LIBRARY(curandStatus_t, curandSetGeneratorOffset)
ASTRA_LIBRARY(curandStatus_t, curandGenerate)
ASTRA_LIBRARY(curandStatus_t, curandGenerateUniform)
ASTRA_LIBRARY(curandStatus_t, curandGenerateNormal)

// NCCL
typedef struct ncclComm_s* ncclComm_t;
typedef enum {
  ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument,
  ncclInvalidUsage
} ncclResult_t;
typedef enum {
  ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32,
  ncclFloat64, ncclBfloat16, ncclChar = 0, ncclInt = 2, ncclHalf = 6, ncclFloat, ncclDouble
} ncclDataType_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef struct { char internal[128]; } ncclUniqueId;
ASTRA_LIBRARY(ncclResult_t, ncclGetUniqueId)
ASTRA_LIBRARY(ncclResult_t, ncclCommInitRank)
ASTRA_LIBRARY(ncclResult_t, ncclCommInitAll)
ASTRA_LIBRARY(ncclResult_t, ncclCommDestroy)
ASTRA_LIBRARY(ncclResult_t, ncclCommCount)
ASTRA_LIBRARY(ncclResult_t, ncclCommUserRank)
ASTRA_LIBRARY(ncclResult_t, ncclGroupStart)
ASTRA_LIBRARY(ncclResult_t, ncclGroupEnd)
ASTRA_LIBRARY(ncclResult_t, ncclSend)
ASTRA_LIBRARY(ncclResult_t, ncclRecv)
ASTRA_LIBRARY(ncclResult_t, ncclAllReduce)
ASTRA_LIBRARY(ncclResult_t, ncclAllGather)
ASTRA_LIBRARY(ncclResult_t, ncclReduceScatter)
ASTRA_LIBRARY(ncclResult_t, ncclBroadcast)
ASTRA_LIBRARY(ncclResult_t, ncclReduce)
ASTRA_LIBRARY(const char*, ncclGetErrorString)
}  // extern C

#undef ASTRA_LIBRARY
#undef ASTRA_UNBUILT
