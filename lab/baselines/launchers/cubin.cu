// Kernels out of a compiled library: their machine code is loaded as it is. Before this text stands
// `kCubin`, the bytes of the cubin.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kDtypes = 3;  // float, half, bfloat16: the launcher's dtype codes

inline cudaError_t load(cudaLibrary_t* library) {
  static cudaLibrary_t loaded = nullptr;
  if (!loaded) {
    const cudaError_t error =
        cudaLibraryLoadData(&loaded, kCubin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (error != cudaSuccess) return error;
  }
  *library = loaded;
  return cudaSuccess;
}

// The kernel for a dtype, looked up once.
inline cudaError_t kernel_for(int dtype, const char* const (&names)[kDtypes],
                              const void** function) {
  static cudaKernel_t found[kDtypes] = {};
  if (dtype < 0 || dtype >= kDtypes) return cudaErrorInvalidValue;
  if (!found[dtype]) {
    cudaLibrary_t library;
    cudaError_t error = load(&library);
    if (error == cudaSuccess) error = cudaLibraryGetKernel(&found[dtype], library, names[dtype]);
    if (error != cudaSuccess) return error;
  }
  *function = reinterpret_cast<const void*>(found[dtype]);
  return cudaSuccess;
}

// The kernel of a mangled name.
inline cudaError_t kernel_named(const char* name, const void** function) {
  cudaLibrary_t library;
  cudaKernel_t kernel;
  cudaError_t error = load(&library);
  if (error == cudaSuccess) error = cudaLibraryGetKernel(&kernel, library, name);
  *function = reinterpret_cast<const void*>(kernel);
  return error;
}

}  // namespace
