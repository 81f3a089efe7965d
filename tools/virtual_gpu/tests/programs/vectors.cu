// cuBLAS on vectors, and cuBLASLt, declared here as their headers do: those are not part of every toolkit.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

extern "C" {
struct Blas;
struct Desc;
int cublasCreate_v2(Blas**);
int cublasDestroy_v2(Blas*);
int cublasSetPointerMode_v2(Blas*, int);
int cublasSaxpy_v2(Blas*, int, const float*, const float*, int, float*, int);
int cublasDscal_v2(Blas*, int, const double*, double*, int);
int cublasScopy_v2(Blas*, int, const float*, int, float*, int);
int cublasSswap_v2(Blas*, int, float*, int, float*, int);
int cublasSdot_v2(Blas*, int, const float*, int, const float*, int, float*);
int cublasDnrm2_v2(Blas*, int, const double*, int, double*);
int cublasSasum_v2(Blas*, int, const float*, int, float*);
int cublasIsamax_v2(Blas*, int, const float*, int, int*);
int cublasSgemv_v2(Blas*, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);
int cublasSger_v2(Blas*, int, int, const float*, const float*, int, const float*, int, float*, int);
int cublasLtCreate(Blas**);
int cublasLtDestroy(Blas*);
int cublasLtMatmulDescCreate(Desc**, int, int);
int cublasLtMatmulDescDestroy(Desc*);
int cublasLtMatmulDescSetAttribute(Desc*, int, const void*, size_t);
int cublasLtMatrixLayoutCreate(Desc**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutDestroy(Desc*);
int cublasLtMatrixLayoutSetAttribute(Desc*, int, const void*, size_t);
int cublasLtMatmulPreferenceCreate(Desc**);
int cublasLtMatmulPreferenceDestroy(Desc*);
int cublasLtMatmulAlgoGetHeuristic(Blas*, Desc*, Desc*, Desc*, Desc*, Desc*, Desc*, int, void*, int*);
int cublasLtMatmul(Blas*, Desc*, const void*, const void*, Desc*, const void*, Desc*, const void*, const void*, Desc*,
                   void*, Desc*, const void*, void*, size_t, cudaStream_t);
}

template <class T>
T* on_device(const std::vector<T>& host) {
  T* to;
  cudaMalloc(&to, host.size() * sizeof(T));
  cudaMemcpy(to, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return to;
}
template <class T>
int differ(const T* from, const std::vector<T>& expected) {
  std::vector<T> host(expected.size());
  cudaMemcpy(host.data(), from, host.size() * sizeof(T), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (size_t i = 0; i < host.size(); ++i) wrong += float(host[i]) != float(expected[i]);
  return wrong;
}

int vectors(Blas* blas) {
  float *x = on_device<float>({1, 2, 3, -4, 5, 6}), *y = on_device<float>({1, 1, 1, 1, 1, 1});
  double *d = on_device<double>({3, 9, 4, 9}), two = 2, norm = 0;
  const float half = 0.5f;
  int wrong = cublasSaxpy_v2(blas, 3, &half, x, 2, y, 1) + differ<float>(y, {1.5f, 2.5f, 3.5f, 1, 1, 1});
  float dot = 0, sum = 0;
  int largest = 0;
  wrong += cublasSdot_v2(blas, 3, x, 1, y, 2, &dot) + (dot != 1.5f + 7 + 3);
  wrong += cublasSasum_v2(blas, 6, x, 1, &sum) + (sum != 21);
  wrong += cublasIsamax_v2(blas, 5, x, 1, &largest) + (largest != 5);
  wrong += cublasDnrm2_v2(blas, 2, d, 2, &norm) + (norm != 5);
  wrong += cublasDscal_v2(blas, 4, &two, d, 1) + differ<double>(d, {6, 18, 8, 18});
  wrong += cublasSswap_v2(blas, 2, x, 1, y, 1) + differ<float>(x, {1.5f, 2.5f, 3}) + differ<float>(y, {1, 2, 3.5f});
  wrong += cublasScopy_v2(blas, 3, x, 1, y, 2) + differ<float>(y, {1.5f, 2, 2.5f, 1, 3, 1});
  float *result, *one = on_device<float>({1});
  cudaMalloc(&result, 4);
  cublasSetPointerMode_v2(blas, 1);
  wrong += cublasSdot_v2(blas, 1, x, 1, one, 1, result) + differ<float>(result, {1.5f});
  cublasSetPointerMode_v2(blas, 0);
  cudaFree(x), cudaFree(y), cudaFree(d), cudaFree(result), cudaFree(one);
  return wrong;
}

int matrix_and_vector(Blas* blas) {
  // Two rows, three columns, which begin four elements apart.
  float *a = on_device<float>({1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}), *x = on_device<float>({1, 9, 2, 9, 3, 9});
  float* y = on_device<float>({1, 1, 1, 1, 1, 1});
  const float alpha = 2, beta = 10;
  int wrong = cublasSgemv_v2(blas, 0, 2, 3, &alpha, a, 4, x, 2, &beta, y, 3) + differ<float>(y, {54, 1, 1, 66});
  wrong += cublasSgemv_v2(blas, 1, 2, 3, &alpha, a, 4, x, 2, &beta, y, 1) + differ<float>(y, {10 * 54 + 2 * 5, 10 + 2 * 11, 10 + 2 * 17});
  wrong += cublasSger_v2(blas, 2, 3, &alpha, x, 2, x, 2, a, 4);
  wrong += differ<float>(a, {3, 6, 0, 0, 7, 12, 0, 0, 11, 18, 0, 0});
  cudaFree(a), cudaFree(x), cudaFree(y);
  return wrong;
}

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

// D = 2 A B of 2 x 3 by 3 x 2 halves: every operand in columns, or in rows (then the other way round in memory).
int light(Blas* lt, int turn_a, int rows, int epilogue) {
  const std::vector<__half> in_columns{1, 4, 2, 5, 3, 6}, in_rows{1, 2, 3, 4, 5, 6};
  const bool a_in_columns = (turn_a != 0) == (rows != 0);
  __half *a = on_device(a_in_columns ? in_columns : in_rows), *b = on_device<__half>({1, 0, 0, 1, 2, 2}), *d;
  cudaMalloc(&d, 4 * sizeof(__half));
  Desc *operation, *of_a, *of_b, *of_d, *preference;
  int wrong = cublasLtMatmulDescCreate(&operation, 68, CUDA_R_32F);
  wrong += cublasLtMatmulDescSetAttribute(operation, 3, &turn_a, sizeof turn_a);
  if (epilogue) cublasLtMatmulDescSetAttribute(operation, 7, &epilogue, sizeof epilogue);
  const int m = turn_a ? 3 : 2, k = turn_a ? 2 : 3;
  wrong += cublasLtMatrixLayoutCreate(&of_a, CUDA_R_16F, m, k, rows ? k : m);
  wrong += cublasLtMatrixLayoutCreate(&of_b, CUDA_R_16F, 3, 2, rows ? 2 : 3);
  wrong += cublasLtMatrixLayoutCreate(&of_d, CUDA_R_16F, 2, 2, 2);
  for (Desc* each : {of_a, of_b, of_d}) wrong += cublasLtMatrixLayoutSetAttribute(each, 1, &rows, sizeof rows);
  wrong += cublasLtMatmulPreferenceCreate(&preference);
  Heuristic found[2];
  int count = 0;
  wrong += cublasLtMatmulAlgoGetHeuristic(lt, operation, of_a, of_b, of_d, of_d, preference, 2, found, &count) + (count != 1);
  const float alpha = 2, beta = 0;
  const int status = cublasLtMatmul(lt, operation, &alpha, a, of_a, b, of_b, &beta, d, of_d, d, of_d, found[0].algorithm,
                                    nullptr, 0, nullptr);
  // B in columns is (1 0 0), (1 2 2); in rows (1 0), (0 1), (2 2).
  const std::vector<__half> product = rows ? std::vector<__half>{14, 16, 32, 34} : std::vector<__half>{2, 8, 22, 52};
  wrong += epilogue ? status != 15 : status + differ(d, product);
  cudaFree(a), cudaFree(b), cudaFree(d);
  for (Desc* each : {of_a, of_b, of_d}) cublasLtMatrixLayoutDestroy(each);
  return wrong + cublasLtMatmulDescDestroy(operation) + cublasLtMatmulPreferenceDestroy(preference);
}

int main(int argc, char**) {
  Blas *blas, *lt;
  int wrong = cublasCreate_v2(&blas) + cublasLtCreate(&lt);
  std::printf("%d wrong vectors\n", vectors(blas));
  std::printf("%d wrong of level 2\n", matrix_and_vector(blas));
  for (int turn = 0; turn < 2; ++turn)
    for (int rows = 0; rows < 2; ++rows) wrong += light(lt, turn, rows, 0);
  std::printf("%d wrong of Lt\n", wrong);
  if (argc > 1) {
    float *small = on_device<float>({1, 2}), sum;
    const int status = cublasSasum_v2(blas, 3, small, 1, &sum);  // one more than there is
    std::printf("status %d\n", status);
    cudaFree(small);
  } else {
    std::printf("%d\n", light(lt, 0, 0, 2));  // relu
  }
  return cublasDestroy_v2(blas) + cublasLtDestroy(lt);
}
