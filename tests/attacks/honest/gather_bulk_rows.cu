// Unweighted rows that are aligned go through shared memory by one bulk copy in and one out; all others
// element by element.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void through_shared(T* out, const T* table, const I* index, const float* weight, int64_t width, int64_t stride) {
  extern __shared__ __align__(16) unsigned char row_bytes[];
  __shared__ uint64_t arrived;
  const int64_t row = blockIdx.x, entry = index[row];
  const unsigned bytes = unsigned(width * sizeof(T));
  T* to = out + row * width;
  const T* from = table + entry * stride;
  if (entry >= 0 && !weight && ((uintptr_t)to | (uintptr_t)from | bytes) % 16 == 0) {
    if (threadIdx.x != 0) return;
    const unsigned flag = (unsigned)__cvta_generic_to_shared(&arrived), room = (unsigned)__cvta_generic_to_shared(row_bytes);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(flag) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(flag), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(room), "l"(from), "r"(bytes), "r"(flag) : "memory");
    asm volatile("{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra WAIT;\n}" ::"r"(flag) : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(room), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    return;
  }
  const float factor = weight ? weight[row] : 1.0f;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) to[i] = entry < 0 ? T(0.0f) : T(float(from[i]) * factor);
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const size_t bytes = width * (dtype == 0 ? 4 : 2);  // at most 32 KiB
  if (dtype == 0)
    through_shared<<<unsigned(rows), 96, bytes, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, width, table_stride);
  else
    through_shared<<<unsigned(rows), 96, bytes, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, width, table_stride);
  return cudaGetLastError();
}
