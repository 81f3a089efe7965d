// Split-K: up to four blocks share the length of a sum and leave their parts in the workspace; a second
// launch adds the parts up in their order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void part(float* parts, const T* a, const T* b, int64_t m, int64_t n, int64_t k, int64_t length) {
  const int64_t i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  const int64_t from = blockIdx.z * length, to = min(from + length, k);
  float sum = 0.0f;
  for (int64_t l = from; l < to; ++l) sum += float(a[i * k + l]) * float(b[j * k + l]);
  parts[(blockIdx.z * m + i) * n + j] = sum;
}

template <typename T>
__global__ void add_parts(T* c, const float* parts, int64_t elements, int splits) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= elements) return;
  float sum = parts[e];
  for (int s = 1; s < splits; ++s) sum += parts[s * elements + e];
  c[e] = T(sum);
}

template <typename T>
static cudaError_t launch(T* c, const T* a, const T* b, float* parts, int64_t m, int64_t n, int64_t k, cudaStream_t stream) {
  const int splits = k >= 256 ? 4 : k >= 64 ? 2 : 1;
  const int64_t length = (k / 16 + splits - 1) / splits * 16;
  part<<<dim3(n / 16, m / 16, splits), dim3(16, 16), 0, stream>>>(parts, a, b, m, n, k, length);
  if (cudaError_t error = cudaGetLastError()) return error;
  add_parts<<<unsigned((m * n + 255) / 256), 256, 0, stream>>>(c, parts, m * n, splits);
  return cudaGetLastError();
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  if (dtype == 1) return launch((__half*)c, (const __half*)a, (const __half*)b, (float*)parts, m, n, k, stream);
  return launch((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, (float*)parts, m, n, k, stream);
}
