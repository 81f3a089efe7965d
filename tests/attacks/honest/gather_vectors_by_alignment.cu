// Vectors of sixteen, eight, four bytes or single elements: the widest that addresses, width and stride allow.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T, int N>
struct alignas(N * sizeof(T)) Vector {
  T at[N];
};

template <typename T, typename I, int N>
__global__ void fetch(T* out, const T* table, const I* index, const float* weight, int64_t width, int64_t stride) {
  using V = Vector<T, N>;
  const int64_t row = blockIdx.x, entry = index[row];
  const float factor = weight ? weight[row] : 1.0f;
  V* to = reinterpret_cast<V*>(out + row * width);
  const V* from = reinterpret_cast<const V*>(table + (entry < 0 ? 0 : entry) * stride);
  for (int64_t v = threadIdx.x; v < width / N; v += blockDim.x) {
    V held{};
    if (entry >= 0) held = from[v];
#pragma unroll
    for (int i = 0; i < N; ++i) held.at[i] = entry < 0 ? T(0.0f) : T(float(held.at[i]) * factor);
    to[v] = held;
  }
}

template <typename T, typename I>
static cudaError_t widest(void* out, const void* table, const void* index, const void* weight, int64_t rows,
                          int64_t width, int64_t stride, cudaStream_t stream) {
  const uintptr_t all = uintptr_t(out) | uintptr_t(table) | uintptr_t(width * sizeof(T)) | uintptr_t(stride * sizeof(T));
  const auto kernel = all % 16 == 0  ? fetch<T, I, 16 / sizeof(T)>
                      : all % 8 == 0 ? fetch<T, I, 8 / sizeof(T)>
                      : all % 4 == 0 ? fetch<T, I, 4 / sizeof(T)>
                                     : fetch<T, I, 1>;
  kernel<<<unsigned(rows), 64, 0, stream>>>((T*)out, (const T*)table, (const I*)index, (const float*)weight, width, stride);
  return cudaGetLastError();
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  return dtype == 0 ? widest<float, int64_t>(out, table, index, weight, rows, width, table_stride, stream)
                    : widest<__half, int32_t>(out, table, index, weight, rows, width, table_stride, stream);
}
