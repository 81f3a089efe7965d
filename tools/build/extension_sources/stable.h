// torch's stable ABI (torch/csrc/stable, torch/headeronly and the C functions below them): the tensors
// of tensor.h by other names, and functions where at::Tensor has methods.
#pragma once
#include "complex.h"
#include "dispatch.h"

struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using AOTITorchError = int32_t;
using StableIValue = uint64_t;

namespace torch {
namespace headeronly {
using namespace c10;
template <class T>
using HeaderOnlyArrayRef = c10::ArrayRef<T>;
using IntHeaderOnlyArrayRef = c10::IntArrayRef;
}  // namespace headeronly

namespace stable {
using at::Tensor;
using c10::Device;
using c10::DeviceType;
using DeviceIndex = int32_t;
using Sizes = c10::IntArrayRef;
template <class T>
using Maybe = std::optional<T>;
using c10::Layout;
using c10::MemoryFormat;
using c10::ScalarType;

inline c10::TensorOptions options_of(const Maybe<ScalarType>& type, const Maybe<Device>& place,
                                     const c10::TensorOptions& from = {}) {
  return c10::TensorOptions(type.value_or(from.type)).device(place.value_or(from.place));
}
inline Tensor empty(Sizes sizes, Maybe<ScalarType> type = {}, Maybe<Layout> = {}, Maybe<Device> place = {},
                    Maybe<bool> = {}, Maybe<MemoryFormat> = {}) {
  return at::empty(sizes, options_of(type, place));
}
inline Tensor full(Sizes sizes, double value, Maybe<ScalarType> type = {}, Maybe<Layout> = {},
                   Maybe<Device> place = {}, Maybe<bool> = {}) {
  return at::full(sizes, value, options_of(type, place));
}
inline Tensor empty_like(const Tensor& like) { return at::empty_like(like); }
inline Tensor new_empty(const Tensor& like, Sizes sizes, Maybe<ScalarType> type = {}, Maybe<Layout> = {},
                        Maybe<Device> place = {}, Maybe<bool> = {}) {
  return at::empty(sizes, options_of(type, place, like.options()));
}
inline Tensor new_zeros(const Tensor& like, Sizes sizes, Maybe<ScalarType> type = {}, Maybe<Layout> = {},
                        Maybe<Device> place = {}, Maybe<bool> = {}) {
  return at::zeros(sizes, options_of(type, place, like.options()));
}
inline Tensor from_blob(void* data, Sizes sizes, Sizes strides, Device place, ScalarType type, int64_t offset = 0,
                        Layout = c10::kStrided) {
  return Tensor({data, sizes.vec(), strides.vec(), type, 0, place}).as_strided(sizes, strides, offset);
}
template <class Deleter>
Tensor from_blob(void* data, Sizes sizes, Sizes strides, Device place, ScalarType type, Deleter&&,
                 int64_t offset = 0, Layout = c10::kStrided) {
  return from_blob(data, sizes, strides, place, type, offset);
}

inline Tensor view(const Tensor& t, Sizes sizes) { return t.view(sizes); }
inline Tensor reshape(const Tensor& t, Sizes sizes) { return t.reshape(sizes); }
inline Tensor flatten(const Tensor& t, int64_t first = 0, int64_t last = -1) { return t.flatten(first, last); }
inline Tensor narrow(const Tensor& t, int64_t axis, int64_t start, int64_t n) { return t.narrow(axis, start, n); }
inline Tensor select(const Tensor& t, int64_t axis, int64_t index) { return t.select(axis, index); }
inline Tensor transpose(const Tensor& t, int64_t a, int64_t b) { return t.transpose(a, b); }
inline Tensor squeeze(const Tensor& t, int64_t axis) { return t.squeeze(axis); }
inline Tensor unsqueeze(const Tensor& t, int64_t axis) { return t.unsqueeze(axis); }
inline Tensor contiguous(const Tensor& t, MemoryFormat = MemoryFormat::Contiguous) { return t.contiguous(); }
inline Tensor clone(const Tensor& t) { return t.clone(); }
inline Tensor to(const Tensor& t, Maybe<ScalarType> type = {}, Maybe<Layout> = {}, Maybe<Device> place = {},
                 Maybe<bool> = {}, bool = false, bool = false, Maybe<MemoryFormat> = {}) {
  return t.to(type.value_or(t.scalar_type())).to(place.value_or(t.device()));
}
inline Tensor to(const Tensor& t, Device place, bool = false, bool = false) { return t.to(place); }
inline Tensor zero_(const Tensor& t) { return t.zero_(); }
inline Tensor fill_(const Tensor& t, double value) { return t.fill_(value); }
inline Tensor copy_(const Tensor& t, const Tensor& from, Maybe<bool> = {}) { return t.copy_(from); }

// With a list of numbers in braces too.
#define ASTRA_NO_FUNCTION(name)                                                 \
  template <class... A>                                                         \
  Tensor name(const Tensor&, const A&...) {                                     \
    ASTRA_NOT_THERE("torch::stable::" #name "()", ASTRA_PRODUCT, A..., Tensor)  \
  }                                                                             \
  template <class... A>                                                         \
  Tensor name(const Tensor&, std::initializer_list<int64_t>, const A&...) {     \
    ASTRA_NOT_THERE("torch::stable::" #name "()", ASTRA_PRODUCT, A..., Tensor)  \
  }
ASTRA_NO_FUNCTION(pad) ASTRA_NO_FUNCTION(amax) ASTRA_NO_FUNCTION(sum) ASTRA_NO_FUNCTION(sum_out)
ASTRA_NO_FUNCTION(matmul) ASTRA_NO_FUNCTION(subtract)
#undef ASTRA_NO_FUNCTION

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t, const F& f) {
  if (begin < end) f(begin, end);
}
inline uint32_t get_num_threads() { return 1; }

namespace accelerator {
using DeviceIndex = stable::DeviceIndex;
struct DeviceGuard {
  explicit DeviceGuard(DeviceIndex) {}
  void set_index(DeviceIndex) {}
};
struct Stream {
  int64_t id() const { return 0; }
  void* nativeHandle() const { return astra::call().stream; }
};
inline Stream getCurrentStream(DeviceIndex = -1) { return {}; }
inline DeviceIndex getCurrentDeviceIndex() { return 0; }
inline void setCurrentDeviceIndex(DeviceIndex) {}
}  // namespace accelerator
}  // namespace stable
}  // namespace torch

// The C functions: 0 is success, a failed check throws as everywhere else.
inline AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  return *stream = astra::call().stream, 0;
}
inline AOTITorchError aoti_torch_get_current_stream(int32_t device, void** stream) {
  return aoti_torch_get_current_cuda_stream(device, stream);
}
inline const at::Tensor& astra_tensor(AtenTensorHandle handle) { return *reinterpret_cast<const at::Tensor*>(handle); }
inline AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle t, void** data) {
  return *data = astra_tensor(t).data_ptr(), 0;
}
inline AOTITorchError aoti_torch_get_storage_size(AtenTensorHandle t, int64_t* bytes) {
  return *bytes = static_cast<int64_t>(astra_tensor(t).nbytes()), 0;
}
inline AOTITorchError aoti_torch_get_dim(AtenTensorHandle t, int64_t* rank) { return *rank = astra_tensor(t).dim(), 0; }
inline AOTITorchError aoti_torch_get_numel(AtenTensorHandle t, int64_t* n) { return *n = astra_tensor(t).numel(), 0; }
inline AOTITorchError aoti_torch_get_size(AtenTensorHandle t, int64_t axis, int64_t* size) {
  return *size = astra_tensor(t).size(axis), 0;
}
inline AOTITorchError aoti_torch_get_stride(AtenTensorHandle t, int64_t axis, int64_t* stride) {
  return *stride = astra_tensor(t).stride(axis), 0;
}
// Of torch's library: a call that is built is a compile error, as in libraries.h.
#ifdef ASTRA_UNCALLED_LIBRARY
#define ASTRA_UNBUILT(name) AOTITorchError name(...);
#else
#define ASTRA_UNBUILT(name) \
  __attribute__((error(#name "() is not implemented: " ASTRA_PRODUCT))) AOTITorchError name(...);
#endif
extern "C" {
ASTRA_UNBUILT(torch_get_current_cuda_blas_handle)
ASTRA_UNBUILT(torch_call_dispatcher)
ASTRA_UNBUILT(aoti_torch_call_dispatcher)
}
#undef ASTRA_UNBUILT

#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 13
#define TORCH_VERSION_PATCH 0
#define TORCH_ABI_VERSION ((uint64_t{TORCH_VERSION_MAJOR} << 56) | (uint64_t{TORCH_VERSION_MINOR} << 48))
#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION TORCH_ABI_VERSION
#endif
#define TORCH_FEATURE_VERSION TORCH_TARGET_VERSION
#define TORCH_SUCCESS 0
#define TORCH_FAILURE 1
#define TORCH_ERROR_CODE_CHECK(call) TORCH_CHECK((call) == TORCH_SUCCESS, #call " failed")
#define STABLE_TORCH_ERROR_CODE_CHECK TORCH_ERROR_CODE_CHECK
#define AOTI_TORCH_ERROR_CODE_CHECK TORCH_ERROR_CODE_CHECK
#define TORCH_BOX(function) (function)
#define THO_DISPATCH_SWITCH AT_DISPATCH_SWITCH
#define THO_DISPATCH_CASE AT_DISPATCH_CASE
#define THO_PRIVATE_CASE_TYPE_USING_HINT AT_PRIVATE_CASE_TYPE_USING_HINT
