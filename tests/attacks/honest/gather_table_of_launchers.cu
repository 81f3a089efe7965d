// A constant table of launchers, one for each dtype, weighted or not, wide or narrow rows: the flags are
// template arguments, so no kernel asks for them.
#include <cuda_fp16.h>
#include <array>
#include <cstdint>
#include <cuda_runtime.h>

struct Call {
  void* out;
  const void *table, *index, *weight;
  int64_t rows, width, stride;
};

template <typename T, typename I, bool WEIGHTED, int THREADS>
__global__ void __launch_bounds__(256) special(const __grid_constant__ Call call) {
  constexpr int ROWS = 256 / THREADS;
  const int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.y;
  if (row >= call.rows) return;
  const int64_t entry = static_cast<const I*>(call.index)[row];
  T* to = static_cast<T*>(call.out) + row * call.width;
  const T* from = static_cast<const T*>(call.table) + entry * call.stride;
  for (int64_t i = threadIdx.x; i < call.width; i += THREADS) {
    if (entry < 0) to[i] = T(0.0f);
    else if constexpr (WEIGHTED) to[i] = T(float(from[i]) * static_cast<const float*>(call.weight)[row]);
    else to[i] = from[i];
  }
}

template <typename T, typename I, bool WEIGHTED, int THREADS>
static void start(const Call& call, cudaStream_t stream) {
  const int64_t rows = 256 / THREADS;
  special<T, I, WEIGHTED, THREADS><<<unsigned((call.rows + rows - 1) / rows), dim3(THREADS, unsigned(rows)), 0, stream>>>(call);
}

static constexpr std::array<void (*)(const Call&, cudaStream_t), 8> kStarts = {
    start<float, int64_t, false, 32>, start<float, int64_t, false, 256>, start<float, int64_t, true, 32>, start<float, int64_t, true, 256>,
    start<__half, int32_t, false, 32>, start<__half, int32_t, false, 256>, start<__half, int32_t, true, 32>, start<__half, int32_t, true, 256>};

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  kStarts[(dtype == 1) * 4 + (weight != nullptr) * 2 + (width > 512)]({out, table, index, weight, rows, width, table_stride}, stream);
  return cudaGetLastError();
}
