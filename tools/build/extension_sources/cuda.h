// Streams, guards and device properties: the stream is the launcher's, and there is one device.
#pragma once
#include <mutex>
#include <tuple>

#include "tensor.h"

namespace c10 {
namespace cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream = nullptr) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  Device device() const { return kCUDA; }
  DeviceIndex device_index() const { return 0; }

 private:
  cudaStream_t stream_;
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(astra::call().stream); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return getCurrentCUDAStream(); }
inline DeviceIndex current_device() { return 0; }
inline DeviceIndex device_count() { return 1; }
inline void set_device(DeviceIndex) {}

// The device is the caller's: a guard changes nothing.
struct CUDAGuard {
  CUDAGuard() = default;
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(DeviceIndex) {}
  explicit OptionalCUDAGuard(Device) {}
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
};
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream) {}
};

}  // namespace cuda
using Stream = cuda::CUDAStream;
struct DeviceGuard {
  explicit DeviceGuard(Device) {}
};
struct OptionalDeviceGuard {
  OptionalDeviceGuard() = default;
  explicit OptionalDeviceGuard(Device) {}
  explicit OptionalDeviceGuard(std::optional<Device>) {}
};
}  // namespace c10

namespace at {
// What a program asks of torch's settings: none of them is set.
struct Context {
  bool deterministicAlgorithms() const { return false; }
  bool deterministicCuDNN() const { return false; }
  bool allowTF32CuBLAS() const { return false; }
  bool allowTF32CuDNN() const { return false; }
};
inline Context& globalContext() {
  static Context context;
  return context;
}
inline std::optional<Device> device_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return tensor.device();
}
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;
// Torch's generator of random numbers: each call of a launcher gets the same seed and offset.
struct PhiloxCudaState {
  uint64_t seed_ = 0, offset_ = 0;
  PhiloxCudaState() = default;
  PhiloxCudaState(uint64_t seed, uint64_t offset) : seed_(seed), offset_(offset) {}
};
constexpr uint64_t kRandomSeed = 67280421310721;  // torch's default
struct CUDAGeneratorImpl {
  std::mutex mutex_;
  uint64_t current_seed() const { return kRandomSeed; }
  PhiloxCudaState philox_cuda_state(uint64_t) { return {kRandomSeed, 0}; }
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t) { return {kRandomSeed, 0}; }
};
struct Generator {
  std::mutex& mutex() const { return impl().mutex_; }
  static CUDAGeneratorImpl& impl() {
    static CUDAGeneratorImpl one;
    return one;
  }
};
template <class T>
T* get_generator_or_default(const std::optional<Generator>&, const Generator& = {}) {
  return &Generator::impl();
}
template <class T>
T* check_generator(const std::optional<Generator>&) {
  return &Generator::impl();
}
namespace cuda {
using namespace c10::cuda;
namespace detail {
inline const Generator& getDefaultCUDAGenerator(c10::DeviceIndex = -1) {
  static const Generator one;
  return one;
}
}  // namespace detail
namespace philox {
__host__ __device__ __forceinline__ std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) {
  return std::make_tuple(state.seed_, state.offset_);
}
}  // namespace philox
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
  static thread_local cudaDeviceProp properties;
  astra::require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }
template <class T>
T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}
}  // namespace cuda
}  // namespace at

// Warp shuffles of torch's DeviceUtils.cuh.
template <class T>
__device__ __forceinline__ T WARP_SHFL_XOR(T value, int mask, int width = 32, unsigned lanes = 0xffffffffu) {
  return __shfl_xor_sync(lanes, value, mask, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = 32, unsigned lanes = 0xffffffffu) {
  return __shfl_sync(lanes, value, lane, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_UP(T value, unsigned by, int width = 32, unsigned lanes = 0xffffffffu) {
  return __shfl_up_sync(lanes, value, by, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned by, int width = 32, unsigned lanes = 0xffffffffu) {
  return __shfl_down_sync(lanes, value, by, width);
}
__device__ __forceinline__ unsigned WARP_BALLOT(int predicate, unsigned lanes = 0xffffffffu) {
  return __ballot_sync(lanes, predicate);
}
template <class T>
__device__ __forceinline__ T doLdg(const T* p) {
  return __ldg(p);
}
__device__ __forceinline__ c10::Half __ldg(const c10::Half* p) {
  return __ldg(reinterpret_cast<const __half*>(p));
}
__device__ __forceinline__ c10::BFloat16 __ldg(const c10::BFloat16* p) {
  return __ldg(reinterpret_cast<const __nv_bfloat16*>(p));
}

// torch's atomics.
__device__ __forceinline__ int64_t atomicAdd(int64_t* at, int64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
}
__device__ __forceinline__ c10::Half atomicAdd(c10::Half* at, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(at), static_cast<__half>(value));
}
__device__ __forceinline__ c10::BFloat16 atomicAdd(c10::BFloat16* at, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(at), static_cast<__nv_bfloat16>(value));
}
template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* at, T value) {
  return atomicAdd(at, value);
}
template <class T>
__device__ __forceinline__ T gpuAtomicAddNoReturn(T* at, T value) {
  return atomicAdd(at, value);
}
