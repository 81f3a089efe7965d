// An extern "C" launcher over bytes and 64-bit places, with distances as parameters.
#include <cuda_runtime.h>

#include <cstdint>

__global__ void copy_pages_kernel(uint8_t* pages, const uint8_t* source, const int64_t* page_ids,
                                  int64_t page_bytes, int64_t pages_stride) {
  for (int64_t i = threadIdx.x; i < page_bytes; i += blockDim.x) {
    pages[page_ids[blockIdx.x] * pages_stride + i] = source[blockIdx.x * page_bytes + i];
  }
}

extern "C" int copy_pages(uint8_t* pages,           // [num_pages, page_bytes]
                          const uint8_t* source,    // [count, page_bytes]
                          const int64_t* page_ids,  // [count]
                          int64_t num_pages, int64_t count, int64_t page_bytes,
                          int64_t pages_stride, bool checked, cudaStream_t stream) {
  if (checked && count > num_pages) return 1;
  copy_pages_kernel<<<static_cast<unsigned>(count), 256, 0, stream>>>(pages, source, page_ids,
                                                                      page_bytes, pages_stride);
  return cudaGetLastError() != cudaSuccess;
}
