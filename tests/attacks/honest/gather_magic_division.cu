// A thread an element of the whole output; the row comes from a multiplication by a number that the host
// computes in the place of a division.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

struct Divider {  // for numerators below 2^32: round up (Granlund and Montgomery)
  uint32_t divisor, shift;
  uint64_t magic;
  explicit Divider(uint32_t d) : divisor(d), shift(0) {
    while ((uint64_t(1) << shift) < d) ++shift;
    magic = ((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1;
  }
  __device__ uint32_t operator()(uint32_t n) const { return uint32_t((uint64_t(__umulhi(n, uint32_t(magic))) + n) >> shift); }
};

template <typename T, typename I>
__global__ void flat(T* out, const T* table, const I* index, const float* weight, Divider by, uint32_t elements, int64_t stride) {
  const uint32_t e = blockIdx.x * 256u + threadIdx.x;
  if (e >= elements) return;
  const uint32_t row = by(e), column = e - row * by.divisor;
  const int64_t entry = index[row];
  const float value = entry < 0 ? 0.0f : float(table[entry * stride + column]);
  out[e] = T(entry < 0 || !weight ? value : value * weight[row]);
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const int64_t most = (int64_t(1) << 31) / width;  // rows of one launch
  for (int64_t first = 0; first < rows; first += most) {
    const uint32_t elements = uint32_t((rows - first < most ? rows - first : most) * width), blocks = (elements + 255) / 256;
    const float* weights = weight ? (const float*)weight + first : nullptr;
    const Divider by(uint32_t(width > 0 ? width : 1));
    if (dtype == 0)
      flat<<<blocks, 256, 0, stream>>>((float*)out + first * width, (const float*)table, (const int64_t*)index + first, weights, by, elements, table_stride);
    else
      flat<<<blocks, 256, 0, stream>>>((__half*)out + first * width, (const __half*)table, (const int*)index + first, weights, by, elements, table_stride);
    if (cudaError_t error = cudaGetLastError()) return error;
  }
  return cudaSuccess;
}
