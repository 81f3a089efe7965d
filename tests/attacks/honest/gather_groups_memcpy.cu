// cooperative_groups::memcpy_async brings a piece of the row for the whole block, which then waits as a group.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

template <typename T, typename I>
__global__ void grouped(T* out, const T* table, const I* index, const float* weight, int64_t width, int64_t stride) {
  __shared__ alignas(16) T piece[1024];
  const auto block = cg::this_thread_block();
  const int64_t row = blockIdx.x;
  const I entry = index[row];
  const float factor = weight ? weight[row] : 1.0f;
  for (int64_t start = 0; start < width; start += 1024) {
    const unsigned count = unsigned(width - start < 1024 ? width - start : 1024);
    if (entry >= 0) {
      cg::memcpy_async(block, piece, table + int64_t(entry) * stride + start, count * sizeof(T));
      cg::wait(block);
    }
    for (unsigned i = block.thread_rank(); i < count; i += block.num_threads())
      out[row * width + start + i] = entry >= 0 ? T(float(piece[i]) * factor) : T(0.0f);
    block.sync();
  }
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  if (dtype == 0)
    grouped<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, width, table_stride);
  else
    grouped<<<unsigned(rows), 128, 0, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, width, table_stride);
  return cudaGetLastError();
}
