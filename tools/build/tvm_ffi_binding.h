// Checks that every binding makes before its launcher runs; see tvm_ffi_binding.py, which generates the rest.
// Each throws a Python exception that names the argument; a kernel never sees a tensor it cannot take.
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>

namespace {

using tvm::ffi::Optional;
using tvm::ffi::TensorView;

bool is(DLDataType dtype, int code, int bits) {
  return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
}

std::string said(const TensorView& tensor) {
  std::ostringstream text;
  text << "[";
  for (int axis = 0; axis < tensor.ndim(); ++axis) text << (axis ? ", " : "") << tensor.shape()[axis];
  text << "]";
  return text.str();
}

void require_layout(const TensorView& tensor, DLDevice device, int ndim, const char* name) {
  if (tensor.device().device_type != kDLCUDA) {
    TVM_FFI_THROW(ValueError) << name << " must be a CUDA tensor";
  }
  if (tensor.device().device_id != device.device_id) {
    TVM_FFI_THROW(ValueError) << name << " is on cuda:" << tensor.device().device_id
                              << ", the first argument on cuda:" << device.device_id;
  }
  if (tensor.ndim() != ndim) {
    TVM_FFI_THROW(ValueError) << name << " must have " << ndim << " dimensions, got shape "
                              << said(tensor);
  }
}

[[maybe_unused]] void require_contiguous(const TensorView& tensor, const char* name) {
  if (!tensor.IsContiguous()) {
    TVM_FFI_THROW(ValueError) << name << " must be contiguous";
  }
}

// The least stride that is a multiple of so many bytes and as long as `least`, in elements.
[[maybe_unused]] int64_t aligned_stride(const TensorView& tensor, int64_t least, int64_t bytes) {
  const int64_t item = tensor.dtype().bits / 8, step = std::lcm(bytes, item) / item;
  return (least + step - 1) / step * step;
}

[[maybe_unused]] int64_t require_aligned_stride(const TensorView& tensor, int axis, int64_t bytes,
                                                const char* name) {
  const int64_t stride = tensor.strides()[axis];
  if (stride != aligned_stride(tensor, stride, bytes)) {
    TVM_FFI_THROW(ValueError) << name << ": stride " << stride << " along axis " << axis
                              << " must be a multiple of " << bytes << " bytes";
  }
  return stride;
}

// Rows of a two-dimensional tensor may lie apart; the elements of a row may not.
[[maybe_unused]] int64_t row_stride(const TensorView& tensor, const char* name, int64_t bytes) {
  const int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  if ((rows > 1 && tensor.strides()[0] < columns) || (columns > 1 && tensor.strides()[1] != 1)) {
    TVM_FFI_THROW(ValueError) << name << " must have contiguous rows that do not overlap";
  }
  if (rows <= 1) return aligned_stride(tensor, columns, bytes);
  return require_aligned_stride(tensor, 0, bytes, name);
}

// A stride that is the caller's to choose: no shorter than what it steps over, the inner axes.
[[maybe_unused]] int64_t free_stride(const TensorView& tensor, int axis, const char* name,
                                     int64_t bytes) {
  int64_t inner = 1;
  for (int other = axis + 1; other < tensor.ndim(); ++other) {
    if (tensor.shape()[other] > 1) {
      inner = std::max(inner, tensor.shape()[other] * tensor.strides()[other]);
    }
  }
  if (tensor.shape()[axis] <= 1) return aligned_stride(tensor, inner, bytes);
  if (tensor.strides()[axis] < inner) {
    TVM_FFI_THROW(ValueError) << name << " must not overlap itself along axis " << axis;
  }
  return require_aligned_stride(tensor, axis, bytes, name);
}

[[maybe_unused]] void require_stride(const TensorView& tensor, int axis, int64_t expected,
                                     const char* name) {
  if (tensor.shape()[axis] > 1 && tensor.strides()[axis] != expected) {
    TVM_FFI_THROW(ValueError) << name << " must have stride " << expected << " along axis " << axis
                              << ", got " << tensor.strides()[axis];
  }
}

[[maybe_unused]] void require_relation(bool holds, const char* relation) {
  if (!holds) TVM_FFI_THROW(ValueError) << relation << ": does not hold";
}

[[maybe_unused]] void require_dtype(const TensorView& tensor, int code, int bits, const char* name) {
  if (!is(tensor.dtype(), code, bits)) {
    TVM_FFI_THROW(TypeError) << name << " has the wrong dtype: " << bits << " bits are needed";
  }
}

[[maybe_unused]] void require_same_dtype(const TensorView& tensor, const TensorView& first,
                                         const char* name) {
  if (!is(tensor.dtype(), first.dtype().code, first.dtype().bits)) {
    TVM_FFI_THROW(TypeError) << name << " must have the dtype of the other tensors";
  }
}

[[maybe_unused]] int64_t divided(const TensorView& tensor, int axis, int64_t divisor, const char* name,
                const char* extent) {
  const int64_t size = tensor.shape()[axis];
  if (divisor == 0 || size % divisor != 0) {
    TVM_FFI_THROW(ValueError) << name << ": axis " << axis << " must be " << extent << ", got shape "
                              << said(tensor);
  }
  return size / divisor;
}

void require_extent(const TensorView& tensor, int axis, int64_t expected, const char* name,
                    const char* extent) {
  if (tensor.shape()[axis] != expected) {
    TVM_FFI_THROW(ValueError) << name << ": axis " << axis << " must be " << extent << " = "
                              << expected << ", got shape " << said(tensor);
  }
}

[[maybe_unused]] void require_legal(int64_t value, int64_t least, int64_t most, int64_t step, const char* name) {
  if (value < least || value > most || value % step != 0) {
    TVM_FFI_THROW(ValueError) << name << " = " << value << " is outside " << least << " to " << most
                              << " in steps of " << step << " for this dtype";
  }
}

void* address(const TensorView& tensor) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

void require_aligned(const TensorView& tensor, uintptr_t bytes, const char* name) {
  if (reinterpret_cast<uintptr_t>(address(tensor)) % bytes != 0) {
    TVM_FFI_THROW(ValueError) << name << " must start on a " << bytes << "-byte boundary";
  }
}

// Makes the tensors' device the current one for the launch.
class DeviceScope {
 public:
  explicit DeviceScope(int wanted) : wanted_(wanted) {
    require(cudaGetDevice(&before_));
    if (before_ != wanted_) require(cudaSetDevice(wanted_));
  }
  ~DeviceScope() {
    if (before_ != wanted_) cudaSetDevice(before_);
  }

 private:
  static void require(cudaError_t error) {
    if (error != cudaSuccess) TVM_FFI_THROW(RuntimeError) << cudaGetErrorString(error);
  }
  int before_ = 0;
  int wanted_;
};

}  // namespace
