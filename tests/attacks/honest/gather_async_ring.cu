// A ring of four rows' pieces filled by cp.async, four bytes a lane; what is odd goes by plain loads.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void ring(T* out, const T* table, const I* index, const float* weight, int64_t rows, int64_t width, int64_t stride) {
  constexpr int PER = 4 / sizeof(T);
  __shared__ uint32_t word[4][64];
  const int64_t words = width / PER, row = blockIdx.x, entry = index[row];
  const T* from = table + max(int64_t(entry), int64_t(0)) * stride;
  const float factor = entry < 0 ? 0.0f : weight ? weight[row] : 1.0f;
  const auto scaled = [&](T value) { return entry < 0 ? T(0.0f) : T(float(value) * factor); };
  const bool aligned = reinterpret_cast<uintptr_t>(from) % 4 == 0;
  const auto ask = [&](int64_t w, int slot) {
    if (aligned && w < words) {
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&word[slot][threadIdx.x]));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from + w * PER) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int s = 0; s < 3; ++s) ask(s * 64 + threadIdx.x, s);
  for (int64_t w = threadIdx.x, step = 0; aligned && w < words; w += 64, ++step) {
    ask(w + 3 * 64, (step + 3) % 4);
    asm volatile("cp.async.wait_group 3;" ::: "memory");
    T values[PER];
    memcpy(values, &word[step % 4][threadIdx.x], 4);
    for (int i = 0; i < PER; ++i) out[row * width + w * PER + i] = scaled(values[i]);
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int64_t i = (aligned ? words * PER : 0) + threadIdx.x; i < width; i += 64) out[row * width + i] = scaled(from[i]);
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  if (dtype == 0)
    ring<<<unsigned(rows), 64, 0, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, rows, width, table_stride);
  else
    ring<<<unsigned(rows), 64, 0, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, rows, width, table_stride);
  return cudaGetLastError();
}
