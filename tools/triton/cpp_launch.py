"""C++ of every launcher made for Triton's machine code: multiples of 16, and the launch itself.

A grid with an axis of 0 launches nothing, as in Triton. Any other grid that CUDA does not take is
an error of the launcher, also where its number of blocks would not fit into CUDA's own type.
"""

LAUNCH = """\
// Whether Triton's code for multiples of 16 may be used.
inline bool by_16(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }
inline bool by_16(int64_t number) { return number % 16 == 0; }

template <typename T>
struct as_declared {
  using type = T;
};

template <typename... Arguments>
cudaError_t launch(void (*kernel)(Arguments...), const int64_t (&grid)[3], int threads,
                   int shared_bytes, cudaStream_t stream,
                   typename as_declared<Arguments>::type... arguments) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) return cudaSuccess;
  for (const int64_t blocks : grid) {
    if (blocks < 0 || blocks > 2147483647) return cudaErrorInvalidConfiguration;
  }
  if (shared_bytes > 48 * 1024) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  }
  kernel<<<dim3(grid[0], grid[1], grid[2]), threads, shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}
"""
