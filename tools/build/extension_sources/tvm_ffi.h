// tvm-ffi's tensors, containers, checks and exports, on top of the same tensors and the same table.
#pragma once
#include <map>
#include <variant>

#include "library.h"

typedef enum {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18
} DLDeviceType;
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat4_e2m1fn = 17U,
} DLDataTypeCode;
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
inline bool operator==(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }
inline bool operator!=(DLDataType a, DLDataType b) { return !(a == b); }
inline std::ostream& operator<<(std::ostream& out, DLDataType t) {
  return out << "DLDataType(" << int(t.code) << ", " << int(t.bits) << ", " << t.lanes << ")";
}
// Templates, because tvm-ffi has no such operators: a project that defines its own means those.
template <class D>
using IfDevice = std::enable_if_t<std::is_same_v<D, DLDevice>, int>;
template <class D, IfDevice<D> = 0>
bool operator==(const D& a, const D& b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
template <class D, IfDevice<D> = 0>
bool operator!=(const D& a, const D& b) {
  return a.device_type != b.device_type || a.device_id != b.device_id;
}
template <class D, IfDevice<D> = 0>
std::ostream& operator<<(std::ostream& out, const D& d) {
  return out << "device " << int(d.device_type);
}

inline void* TVMFFIEnvGetStream(int32_t, int32_t) { return astra::call().stream; }
inline int TVMFFIEnvTensorAlloc(DLTensor*, void*, void*, void*) { return 0; }

namespace astra {

struct DLPair {
  c10::ScalarType type;
  DLDataType dl;
};
constexpr DLPair kDLTypes[] = {
    {c10::kByte, {kDLUInt, 8, 1}},          {c10::kChar, {kDLInt, 8, 1}},
    {c10::kShort, {kDLInt, 16, 1}},         {c10::kInt, {kDLInt, 32, 1}},
    {c10::kLong, {kDLInt, 64, 1}},          {c10::kHalf, {kDLFloat, 16, 1}},
    {c10::kFloat, {kDLFloat, 32, 1}},       {c10::kDouble, {kDLFloat, 64, 1}},
    {c10::kBool, {kDLBool, 8, 1}},          {c10::kBFloat16, {kDLBfloat, 16, 1}},
    {c10::kFloat8_e5m2, {kDLFloat8_e5m2, 8, 1}}, {c10::kFloat8_e4m3fn, {kDLFloat8_e4m3fn, 8, 1}},
    {c10::kFloat8_e8m0fnu, {kDLFloat8_e8m0fnu, 8, 1}}, {c10::kUInt16, {kDLUInt, 16, 1}},
    {c10::kUInt32, {kDLUInt, 32, 1}},       {c10::kUInt64, {kDLUInt, 64, 1}},
    {c10::kFloat4_e2m1fn_x2, {kDLFloat4_e2m1fn, 4, 2}}};
inline DLDataType dl_of(c10::ScalarType type) {
  for (const DLPair& pair : kDLTypes)
    if (pair.type == type) return pair.dl;
  fail("", "DLPack has no dtype for ", type);
}
inline c10::ScalarType type_of(DLDataType dl) {
  for (const DLPair& pair : kDLTypes)
    if (pair.dl == dl) return pair.type;
  fail("", "no dtype is ", dl);
}

inline Search*& current_search() {
  static thread_local Search* search = nullptr;
  return search;
}

// The text of a failed check, thrown where the statement ends.
class Thrown {
 public:
  explicit Thrown(const char* condition) { text_ << condition; }
  [[noreturn]] ~Thrown() noexcept(false) { throw c10::Error(text_.str()); }
  template <class T>
  Thrown& operator<<(const T& part) {
    text_ << part;
    return *this;
  }

 private:
  std::ostringstream text_;
};

}  // namespace astra

namespace tvm {
namespace ffi {

using String = std::string;
template <class T>
using Optional = std::optional<T>;
template <class... T>
using Variant = std::variant<T...>;
template <class K, class V>
using Map = std::map<K, V>;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> from) : sizes_(from) {}
  Shape(c10::IntArrayRef from) : sizes_(from.vec()) {}
  Shape(std::vector<int64_t> from) : sizes_(std::move(from)) {}
  template <class I>
  Shape(I first, I last) : sizes_(first, last) {}
  size_t size() const { return sizes_.size(); }
  int64_t operator[](size_t i) const { return sizes_[i]; }
  int64_t at(size_t i) const { return sizes_.at(i); }
  const int64_t* data() const { return sizes_.data(); }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size(); }
  int64_t Product() const { return astra::product(sizes_); }
  c10::IntArrayRef list() const { return sizes_; }
  friend bool operator==(const Shape& a, const Shape& b) { return a.sizes_ == b.sizes_; }

 private:
  std::vector<int64_t> sizes_;
};
using ShapeView = Shape;

class Tensor {
 public:
  Tensor() = default;
  Tensor(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  template <class... More>
  static Tensor FromEnvAlloc(int (*)(DLTensor*, void*, void*, void*), const Shape& shape, DLDataType dtype,
                             DLDevice, const More&...) {
    return at::empty(shape.list(), astra::type_of(dtype));
  }
  void* data_ptr() const { return tensor_.data_ptr(); }
  int32_t ndim() const { return static_cast<int32_t>(tensor_.dim()); }
  int32_t dim() const { return ndim(); }
  int64_t size(int64_t axis) const { return tensor_.size(axis); }
  int64_t stride(int64_t axis) const { return tensor_.stride(axis); }
  Shape shape() const { return tensor_.sizes(); }
  Shape sizes() const { return shape(); }
  Shape strides() const { return tensor_.strides(); }
  int64_t numel() const { return tensor_.numel(); }
  uint64_t byte_offset() const { return 0; }
  DLDataType dtype() const { return astra::dl_of(tensor_.scalar_type()); }
  DLDevice device() const { return {kDLCUDA, 0}; }
  bool IsContiguous() const { return tensor_.is_contiguous(); }
  bool is_contiguous() const { return tensor_.is_contiguous(); }
  bool defined() const { return tensor_.defined(); }
  Tensor as_strided(const Shape& sizes, const Shape& strides, int64_t offset = 0) const {
    return tensor_.as_strided(sizes.list(), strides.list(), offset);
  }
  const Tensor* operator->() const { return this; }
  const at::Tensor& of_torch() const { return tensor_; }

 private:
  at::Tensor tensor_;
};
class TensorView : public Tensor {
 public:
  using Tensor::Tensor;
  TensorView(const Tensor& tensor) : Tensor(tensor) {}
  const TensorView* operator->() const { return this; }
};

template <class T>
class Array : public std::vector<T> {
 public:
  using std::vector<T>::vector;
};
template <class... T>
class Tuple : public std::tuple<T...> {
 public:
  using std::tuple<T...>::tuple;
  template <size_t i>
  auto get() const {
    return std::get<i>(static_cast<const std::tuple<T...>&>(*this));
  }
};

namespace reflection {
struct GlobalDef {
  template <class F, class... More>
  GlobalDef& def(const char* name, F function, const More&...) {
    astra::current_search()->offer(name, function);
    return *this;
  }
};
}  // namespace reflection

struct CUDADeviceGuard {
  explicit CUDADeviceGuard(int) {}
};
inline size_t GetDataSize(int64_t count, DLDataType dtype) { return (count * dtype.bits * dtype.lanes + 7) / 8; }
inline size_t GetDataSize(const Tensor& tensor) { return GetDataSize(tensor.numel(), tensor.dtype()); }

}  // namespace ffi
}  // namespace tvm

namespace astra {

template <>
struct As<tvm::ffi::Tensor> {
  static tvm::ffi::Tensor from(const Value& v) { return As<at::Tensor>::from(v); }
};
template <>
struct As<tvm::ffi::TensorView> {
  static tvm::ffi::TensorView from(const Value& v) { return tvm::ffi::Tensor(As<at::Tensor>::from(v)); }
};
template <>
struct As<DLDataType> {
  static DLDataType from(const Value& v) { return dl_of(As<c10::ScalarType>::from(v)); }
};
template <>
struct As<tvm::ffi::Shape> {
  static tvm::ffi::Shape from(const Value& v) { return As<std::vector<int64_t>>::from(v); }
};
template <class T>
struct As<tvm::ffi::Array<T>> {
  static tvm::ffi::Array<T> from(const Value& v) {
    const std::vector<int64_t> list = As<std::vector<int64_t>>::from(v);
    return tvm::ffi::Array<T>(list.begin(), list.end());
  }
};
template <>
struct As<tvm::ffi::Array<tvm::ffi::Tensor>> {
  static tvm::ffi::Array<tvm::ffi::Tensor> from(const Value& v) { misfit(v, "a list of tensors"); }
};
inline void collect(std::vector<at::Tensor>& found, const tvm::ffi::Tensor& t) { found.push_back(t.of_torch()); }
inline void collect(std::vector<at::Tensor>& found, const tvm::ffi::Array<tvm::ffi::Tensor>& ts) {
  for (const tvm::ffi::Tensor& t : ts) collect(found, t);
}
template <class... T>
void collect(std::vector<at::Tensor>& found, const tvm::ffi::Tuple<T...>& ts) {
  collect(found, static_cast<const std::tuple<T...>&>(ts));
}

}  // namespace astra

#define TVM_FFI_ICHECK(condition) \
  if (condition) {                \
  } else                          \
    ::astra::Thrown("check failed: (" #condition ") ")
#define ASTRA_COMPARED(op, a, b) \
  if ((a)op(b)) {                \
  } else                         \
    ::astra::Thrown("check failed: " #a " " #op " " #b ": ") << (a) << " vs. " << (b) << ": "
#define TVM_FFI_ICHECK_EQ(a, b) ASTRA_COMPARED(==, a, b)
#define TVM_FFI_ICHECK_NE(a, b) ASTRA_COMPARED(!=, a, b)
#define TVM_FFI_ICHECK_LT(a, b) ASTRA_COMPARED(<, a, b)
#define TVM_FFI_ICHECK_LE(a, b) ASTRA_COMPARED(<=, a, b)
#define TVM_FFI_ICHECK_GT(a, b) ASTRA_COMPARED(>, a, b)
#define TVM_FFI_ICHECK_GE(a, b) ASTRA_COMPARED(>=, a, b)
#define TVM_FFI_ICHECK_NOTNULL(p) (p)
#define TVM_FFI_CHECK(condition, kind) TVM_FFI_ICHECK(condition)
#define TVM_FFI_CHECK_EQ(a, b, kind) ASTRA_COMPARED(==, a, b)
#define TVM_FFI_DCHECK TVM_FFI_ICHECK
#define TVM_FFI_THROW(kind) ::astra::Thrown(#kind ": ")
#define TVM_FFI_LOG_AND_THROW(kind) ::astra::Thrown(#kind ": ")
#define TVM_FFI_UNREACHABLE() __builtin_unreachable()
#define TVM_FFI_CHECK_CUDA_ERROR(call) ::astra::require((call), #call)
#define TVM_FFI_INLINE inline
#define TVM_FFI_DLL
#define TVM_FFI_DLL_EXPORT
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function) \
  ASTRA_REGISTRATION(ASTRA_JOIN(name##_, __COUNTER__), { search.offer(#name, function); })
// Both forms: BLOCK() { ... } and BLOCK({ ... });
#define TVM_FFI_STATIC_INIT_BLOCK(...) ASTRA_BLOCK(__COUNTER__, __VA_ARGS__)
#define ASTRA_BLOCK(id, ...)                                        \
  static void ASTRA_JOIN(astra_block_, id)();                       \
  ASTRA_REGISTRATION(id, {                                          \
    ::astra::current_search() = &search;                            \
    ASTRA_JOIN(astra_block_, id)();                                 \
  })                                                                \
  static void ASTRA_JOIN(astra_block_, id)() __VA_ARGS__
