// cuBLAS and cuRAND, declared here as their headers do: those are not part of every toolkit.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

extern "C" {
struct Blas;
struct Random;
int cublasCreate_v2(Blas**);
int cublasDestroy_v2(Blas*);
int cublasSetPointerMode_v2(Blas*, int);
int cublasSgemm_v2(Blas*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                   float*, int);
int cublasGemmEx(Blas*, int, int, int, int, int, const void*, const void*, cudaDataType_t, int, const void*,
                 cudaDataType_t, int, const void*, void*, cudaDataType_t, int, int, int);
int cublasSgemmStridedBatched(Blas*, int, int, int, int, int, const float*, const float*, int, long long,
                              const float*, int, long long, const float*, float*, int, long long, int);
int curandCreateGenerator(Random**, int);
int curandSetPseudoRandomGeneratorSeed(Random*, unsigned long long);
int curandGenerateUniform(Random*, float*, size_t);
int curandGenerateNormal(Random*, float*, size_t, float, float);
int curandDestroyGenerator(Random*);
}

enum { M = 5, N = 3, K = 4, LDA = 7, LDB = 6, LDC = 8 };

template <class T>
T* on_device(const std::vector<T>& host) {
  T* to;
  cudaMalloc(&to, host.size() * sizeof(T));
  cudaMemcpy(to, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return to;
}
template <class T>
std::vector<T> from_device(const T* from, size_t count) {
  std::vector<T> host(count);
  cudaMemcpy(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost);
  return host;
}

// Small whole numbers, so that every sum is exact in every type.
template <class T, class Call>
int check(bool turn_a, bool turn_b, float beta, Call call) {
  std::vector<T> a(LDA * 8), b(LDB * 8), c(LDC * N);
  for (size_t i = 0; i < a.size(); ++i) a[i] = T(float(int(i) % 7 - 3));
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(float(int(i) % 5 - 2));
  for (size_t i = 0; i < c.size(); ++i) c[i] = T(float(i % 3));
  T *da = on_device(a), *db = on_device(b), *dc = on_device(c);
  const float alpha = 2;
  int wrong = call(turn_a, turn_b, &alpha, da, db, &beta, dc);
  const std::vector<T> got = from_device(dc, c.size());
  for (int column = 0; column < N; ++column)
    for (int row = 0; row < LDC; ++row) {
      float sum = 0;
      for (int k = 0; k < K; ++k)
        sum += float(a[turn_a ? k + row * LDA : row + k * LDA]) * float(b[turn_b ? column + k * LDB : k + column * LDB]);
      const int at = row + column * LDC;
      wrong += float(got[at]) != (row < M ? alpha * sum + beta * float(c[at]) : float(c[at]));
    }
  cudaFree(da), cudaFree(db), cudaFree(dc);
  return wrong;
}

int main(int argc, char**) {
  Blas* blas;
  int wrong = cublasCreate_v2(&blas);
  for (int turned = 0; turned < 4; ++turned) {
    const int ta = turned & 1, tb = turned >> 1;
    wrong += check<float>(ta, tb, 0.5f * turned, [&](int ta, int tb, auto alpha, auto a, auto b, auto beta, auto c) {
      return cublasSgemm_v2(blas, ta, tb, M, N, K, alpha, a, LDA, b, LDB, beta, c, LDC);
    });
    wrong += check<__half>(ta, tb, 1, [&](int ta, int tb, auto alpha, auto a, auto b, auto beta, auto c) {
      return cublasGemmEx(blas, ta, tb, M, N, K, alpha, a, CUDA_R_16F, LDA, b, CUDA_R_16F, LDB, beta, c, CUDA_R_16F,
                          LDC, 68, -1);
    });
    wrong += check<__nv_bfloat16>(ta, tb, 0, [&](int ta, int tb, auto alpha, auto a, auto b, auto beta, auto c) {
      return cublasGemmEx(blas, ta, tb, M, N, K, alpha, a, CUDA_R_16BF, LDA, b, CUDA_R_16BF, LDB, beta, c, CUDA_R_16BF,
                          LDC, 68, 99);
    });
  }
  float *x = on_device(std::vector<float>(24, 1)), *y, *scalars = on_device(std::vector<float>{1, 0});
  cudaMalloc(&y, 8 * sizeof(float));
  cublasSetPointerMode_v2(blas, 1);
  wrong += cublasSgemmStridedBatched(blas, 0, 0, 2, 2, 3, scalars, x, 2, 6, x, 3, 6, scalars + 1, y, 2, 4, 2);
  for (float each : from_device(y, 8)) wrong += each != 3;
  cublasSetPointerMode_v2(blas, 0);
  const float one = 1, zero = 0;
  wrong += cublasSgemm_v2(blas, 0, 0, 4, 4, 4, &one, x, 3, x, 4, &zero, y, 4) != 7;  // lda is less than m
  std::printf("%d wrong products\n", wrong);

  Random* random;
  curandCreateGenerator(&random, 100);
  float* numbers;
  cudaMalloc(&numbers, 20000 * sizeof(float));
  curandSetPseudoRandomGeneratorSeed(random, 7);
  int bad = curandGenerateUniform(random, numbers, 20000);
  const std::vector<float> uniform = from_device(numbers, 20000);
  double sum = 0, squares = 0;
  for (float each : uniform) sum += each, bad += !(each > 0 && each <= 1);
  bad += std::fabs(sum / 20000 - 0.5) > 0.02;
  bad += curandGenerateNormal(random, numbers, 20000, 3, 2);
  bad += curandGenerateNormal(random, numbers, 3, 3, 2) != 105;  // an odd number
  sum = 0;
  for (float each : from_device(numbers, 20000)) sum += each, squares += (each - 3) * (each - 3);
  bad += std::fabs(sum / 20000 - 3) > 0.1 || std::fabs(squares / 20000 - 4) > 0.2;
  curandSetPseudoRandomGeneratorSeed(random, 7);
  curandGenerateUniform(random, numbers, 20000);
  bad += std::memcmp(from_device(numbers, 20000).data(), uniform.data(), 80000) != 0;
  std::printf("%d wrong draws\n", bad);

  if (argc > 1) {
    float* never;
    cudaMalloc(&never, 16 * sizeof(float));
    cublasSgemm_v2(blas, 0, 0, 4, 4, 4, &one, never, 4, x, 4, &zero, numbers, 4);
    const int failed = cublasSgemm_v2(blas, 0, 0, 4, 4, 4, &one, x, 4, x, 4, &zero, y, 4);  // y is too small
    std::printf("status %d, %s\n", failed, cudaGetErrorName(cudaGetLastError()));
  }
  cudaFree(x), cudaFree(y), cudaFree(scalars), cudaFree(numbers);
  curandDestroyGenerator(random);
  return cublasDestroy_v2(blas) || wrong || bad;
}
