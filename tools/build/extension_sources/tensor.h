// at::Tensor: where a tensor lies, its sizes, strides and dtype, and views of it. It computes nothing.
#pragma once
#include <cuda.h>  // torch's headers bring CUDA_VERSION, by which kernel files choose

#include <memory>

#include "memory.h"

struct AtenTensorOpaque;  // a tensor by the stable ABI's handle

namespace c10 {

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, HIP = 6, Meta = 14 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
using DeviceIndex = int8_t;
struct Device {
  DeviceType type_ = DeviceType::CUDA;
  DeviceIndex index_ = 0;
  Device(DeviceType type, DeviceIndex index = 0) : type_(type), index_(index) {}
  Device(const char*) {}
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return true; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  std::string str() const { return is_cuda() ? "cuda:0" : "cpu"; }
  friend bool operator==(Device a, Device b) { return a.type_ == b.type_ && a.index_ == b.index_; }
  friend bool operator!=(Device a, Device b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, Device d) { return out << d.str(); }
};
inline std::ostream& operator<<(std::ostream& out, DeviceType t) { return out << (t == kCUDA ? "cuda" : "cpu"); }
enum class Layout : int8_t { Strided };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

struct Scalar {
  double d = 0;
  int64_t i = 0;
  Scalar() = default;
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) : d(static_cast<double>(value)), i(static_cast<int64_t>(value)) {}
  template <class T>
  T to() const {
    return std::is_integral_v<T> ? static_cast<T>(i) : static_cast<T>(d);
  }
  double toDouble() const { return d; }
  float toFloat() const { return static_cast<float>(d); }
  int64_t toLong() const { return i; }
  int toInt() const { return static_cast<int>(i); }
};

struct TensorOptions {
  ScalarType type = ScalarType::Float;
  Device place = kCUDA;
  TensorOptions() = default;
  TensorOptions(ScalarType t) : type(t) {}
  TensorOptions(TypeMeta t) : type(t) {}
  TensorOptions(Device d) : place(d) {}
  TensorOptions(DeviceType d) : place(d) {}
  TensorOptions dtype(ScalarType t) const {
    TensorOptions other = *this;
    other.type = t;
    return other;
  }
  TensorOptions dtype(TypeMeta t) const { return dtype(t.type); }
  template <class T>
  TensorOptions dtype() const {
    return dtype(CppTypeToScalarType<T>::value);
  }
  TensorOptions device(Device d) const {
    TensorOptions other = *this;
    other.place = d;
    return other;
  }
  TensorOptions device(DeviceType d, DeviceIndex index) const { return device(Device(d, index)); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions memory_format(MemoryFormat) const { return *this; }
  TensorOptions requires_grad(bool) const { return *this; }
  TensorOptions pinned_memory(bool) const { return *this; }
  TypeMeta dtype() const { return type; }
  Device device() const { return place; }
};

}  // namespace c10

// A method or function that is not there: who calls it gets this as the compiler's error. Where a
// task's flags define ASTRA_UNCALLED_LIBRARY, functions of the file that nobody calls may name it, and
// the error comes when it is called.
namespace astra {
#ifdef ASTRA_UNCALLED_LIBRARY
template <class...>
constexpr bool allowed = true;
#else
template <class...>
constexpr bool allowed = false;
#endif
}  // namespace astra
#define ASTRA_NOT_THERE(what, way, ...)                                                 \
  static_assert(::astra::allowed<__VA_ARGS__>, what " is not implemented: " way);       \
  ::astra::fail("", what " is not implemented: " way);
#define ASTRA_MISSING(name, way)                                         \
  template <class... A>                                                  \
  ::at::Tensor name(const A&...) const {                                 \
    ASTRA_NOT_THERE("Tensor::" #name "()", way, A..., ::at::Tensor)      \
  }

namespace at {

namespace indexing {
enum class TensorIndexType { None, Ellipsis };
constexpr auto None = TensorIndexType::None, Ellipsis = TensorIndexType::Ellipsis;
struct Slice {
  template <class... A>
  Slice(const A&...) {}
};
// An entry of x.index({...}).
struct TensorIndex {
  template <class T>
  TensorIndex(const T&) {
    ASTRA_NOT_THERE("Tensor::index()", "use slice(), narrow(), select() or view(), or index in your kernel", T)
  }
};
}  // namespace indexing

using c10::Device;
using c10::IntArrayRef;
using c10::Scalar;
using c10::ScalarType;
using c10::TensorOptions;

template <class T, size_t N>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T, size_t N>
struct RestrictPtrTraits {
  using PtrType = T*;
};
template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor;
template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

class Tensor {
 public:
  struct Place {
    void* data;
    std::vector<int64_t> sizes, strides;
    ScalarType type;
    int64_t offset = 0;
    Device device = c10::kCUDA;
    const char* name = "";  // of the contract's argument that it is, or is a view of
  };

  Tensor() = default;
  explicit Tensor(Place place) : place_(std::make_shared<Place>(std::move(place))) {}
  static Tensor dense(void* data, IntArrayRef sizes, ScalarType type) {
    return Tensor({data, sizes.vec(), dense_strides(sizes), type});
  }
  static std::vector<int64_t> dense_strides(IntArrayRef sizes) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = step;
      step *= sizes[i] > 1 ? sizes[i] : 1;
    }
    return strides;
  }

  bool defined() const { return place_ != nullptr; }
  int64_t dim() const { return here().sizes.size(); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return here().sizes; }
  IntArrayRef strides() const { return here().strides; }
  int64_t size(int64_t axis) const { return here().sizes[wrapped(axis)]; }
  int64_t stride(int64_t axis) const { return here().strides[wrapped(axis)]; }
  int64_t sym_size(int64_t axis) const { return size(axis); }
  IntArrayRef sym_sizes() const { return sizes(); }
  IntArrayRef sym_strides() const { return strides(); }
  int64_t sym_numel() const { return numel(); }
  int64_t numel() const { return astra::product(sizes()); }
  ScalarType scalar_type() const { return here().type; }
  caffe2::TypeMeta dtype() const { return here().type; }
  size_t element_size() const { return c10::elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return numel() * element_size(); }
  int64_t storage_offset() const { return here().offset; }
  Device device() const { return here().device; }
  int8_t get_device() const { return 0; }
  int32_t get_device_index() const { return 0; }
  AtenTensorOpaque* get() const { return reinterpret_cast<AtenTensorOpaque*>(const_cast<Tensor*>(this)); }
  c10::Layout layout() const { return c10::kStrided; }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  const Tensor& type() const { return *this; }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  bool requires_grad() const { return false; }
  const Tensor& set_requires_grad(bool) const { return *this; }
  bool is_floating_point() const { return c10::isFloatingType(scalar_type()); }
  bool is_same(const Tensor& other) const { return place_ == other.place_; }
  bool is_non_overlapping_and_dense() const { return is_contiguous(); }
  bool is_contiguous(c10::MemoryFormat = c10::MemoryFormat::Contiguous) const {
    int64_t step = 1;
    for (int64_t i = dim(); i-- > 0;) {
      if (size(i) != 1 && stride(i) != step) return false;
      step *= size(i);
    }
    return true;
  }

  void* data_ptr() const { return defined() ? here().data : nullptr; }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    using Element = std::remove_const_t<T>;
    constexpr ScalarType wanted = c10::CppTypeToScalarType<Element>::value;
    if (scalar_type() != wanted) astra::mistyped(here().name, wanted, scalar_type());
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  Tensor data() const { return *this; }

  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, int64_t offset = 0) const {
    return at(offset, sizes.vec(), strides.vec());
  }
  Tensor view(ScalarType type) const {
    TORCH_CHECK(c10::elementSize(type) == element_size(), "view as ", type, " of another size");
    Place place = here();
    place.type = type;
    return Tensor(std::move(place));
  }
  Tensor view(IntArrayRef sizes) const { return reshape(sizes); }
  Tensor view(std::initializer_list<int64_t> sizes) const { return reshape(IntArrayRef(sizes)); }
  Tensor view_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor reshape(std::initializer_list<int64_t> sizes) const { return reshape(IntArrayRef(sizes)); }
  Tensor reshape(IntArrayRef asked) const {
    std::vector<int64_t> sizes = asked.vec();
    int64_t open = -1, known = 1;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == -1)
        open = i;
      else
        known *= sizes[i];
    if (open >= 0) sizes[open] = known ? numel() / known : 0;
    TORCH_CHECK(astra::product(sizes) == numel(), "shape ", asked, " is invalid for ", numel(), " elements");
    return at(0, sizes, strides_as(sizes));
  }
  Tensor flatten(int64_t first = 0, int64_t last = -1) const {
    first = wrapped(first), last = wrapped(last);
    std::vector<int64_t> sizes(here().sizes.begin(), here().sizes.begin() + first);
    int64_t joined = 1;
    for (int64_t i = first; i <= last; ++i) joined *= size(i);
    sizes.push_back(joined);
    sizes.insert(sizes.end(), here().sizes.begin() + last + 1, here().sizes.end());
    return reshape(sizes);
  }
  Tensor slice(int64_t axis, std::optional<int64_t> start = {}, std::optional<int64_t> end = {},
               int64_t step = 1) const {
    axis = wrapped(axis);
    const int64_t n = size(axis);
    const auto inside = [n](int64_t i) { return i < 0 ? (i + n < 0 ? 0 : i + n) : i > n ? n : i; };
    const int64_t first = inside(start.value_or(0)), last = inside(end.value_or(n));
    std::vector<int64_t> sizes = here().sizes, strides = here().strides;
    sizes[axis] = last > first ? (last - first + step - 1) / step : 0;
    strides[axis] *= step;
    return at(first * stride(axis), sizes, strides);
  }
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const { return slice(axis, start, start + length); }
  Tensor select(int64_t axis, int64_t index) const {
    axis = wrapped(axis);
    if (index < 0) index += size(axis);
    std::vector<int64_t> sizes = here().sizes, strides = here().strides;
    sizes.erase(sizes.begin() + axis);
    strides.erase(strides.begin() + axis);
    return at(index * stride(axis), sizes, strides);
  }
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor squeeze() const {
    std::vector<int64_t> sizes, strides;
    for (int64_t i = 0; i < dim(); ++i)
      if (size(i) != 1) sizes.push_back(size(i)), strides.push_back(stride(i));
    return at(0, sizes, strides);
  }
  Tensor squeeze(int64_t axis) const { return size(axis) == 1 ? select(axis, 0) : *this; }
  Tensor unsqueeze(int64_t axis) const {
    if (axis < 0) axis += dim() + 1;
    std::vector<int64_t> sizes = here().sizes, strides = here().strides;
    strides.insert(strides.begin() + axis, axis < dim() ? strides[axis] * sizes[axis] : 1);
    sizes.insert(sizes.begin() + axis, 1);
    return at(0, sizes, strides);
  }
  Tensor transpose(int64_t a, int64_t b) const {
    std::vector<int64_t> sizes = here().sizes, strides = here().strides;
    a = wrapped(a), b = wrapped(b);
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
    return at(0, sizes, strides);
  }
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor permute(IntArrayRef order) const {
    std::vector<int64_t> sizes, strides;
    for (int64_t axis : order) sizes.push_back(size(axis)), strides.push_back(stride(axis));
    return at(0, sizes, strides);
  }
  Tensor permute(std::initializer_list<int64_t> order) const { return permute(IntArrayRef(order)); }
  Tensor expand(IntArrayRef asked) const {
    const int64_t more = static_cast<int64_t>(asked.size()) - dim();
    std::vector<int64_t> sizes = asked.vec(), strides(asked.size(), 0);
    for (int64_t i = 0; i < dim(); ++i) {
      if (sizes[more + i] == -1) sizes[more + i] = size(i);
      strides[more + i] = size(i) == 1 && sizes[more + i] != 1 ? 0 : stride(i);
    }
    return at(0, sizes, strides);
  }
  Tensor expand(std::initializer_list<int64_t> asked) const { return expand(IntArrayRef(asked)); }
  Tensor alias() const { return *this; }
  Tensor detach() const { return *this; }

  Tensor contiguous(c10::MemoryFormat = c10::MemoryFormat::Contiguous) const {
    TORCH_CHECK(is_contiguous(), ".contiguous() of a tensor with sizes ", sizes(), " and strides ", strides(),
                " copies it: let task.toml state it contiguous, or let the kernel take its strides");
    return *this;
  }
  Tensor to(ScalarType type) const {
    TORCH_CHECK(type == scalar_type(), ".to(", type, ") of a tensor of ", scalar_type(),
                " is a kernel of torch: let task.toml give the dtype that your kernel takes");
    return *this;
  }
  Tensor to(caffe2::TypeMeta type) const { return to(type.type); }
  Tensor to(Device place) const {
    TORCH_CHECK(place.type() == device().type(), ".to(", place, ") copies a tensor to another device");
    return *this;
  }
  Tensor to(const TensorOptions& options) const { return to(options.type); }
  Tensor toType(ScalarType type) const { return to(type); }

  const Tensor& zero_() const { return fill_(0); }
  const Tensor& fill_(const c10::Scalar& value) const {
    TORCH_CHECK(is_contiguous(), "fill_ on a tensor that is not contiguous launches a kernel of torch");
    if (c10::isFloatingType(scalar_type()))
      astra::fill_as(scalar_type(), data_ptr(), numel(), value.d);
    else
      astra::fill_as(scalar_type(), data_ptr(), numel(), value.i);
    return *this;
  }
  const Tensor& copy_(const Tensor& from, bool = false) const {
    TORCH_CHECK(is_contiguous() && from.is_contiguous() && from.scalar_type() == scalar_type(),
                "copy_ between different layouts or dtypes launches a kernel of torch");
    if (nbytes())
      astra::require(cudaMemcpyAsync(data_ptr(), from.data_ptr(), nbytes(), cudaMemcpyDeviceToDevice,
                                     astra::call().stream),
                     "cudaMemcpyAsync");
    return *this;
  }
  inline Tensor clone(c10::MemoryFormat = c10::MemoryFormat::Preserve) const;
  inline Tensor new_empty(IntArrayRef sizes) const;
  inline Tensor new_empty(IntArrayRef sizes, const TensorOptions& options) const;
  inline Tensor new_zeros(IntArrayRef sizes) const;

  Tensor index(std::initializer_list<indexing::TensorIndex>) const { return {}; }
  template <class T>
  const Tensor& index_put_(std::initializer_list<indexing::TensorIndex>, const T&) const {
    return *this;
  }
  template <class T = double>
  T item() const {
    ASTRA_NOT_THERE("Tensor::item()",
                    "a launcher cannot read device memory; give the number as an argument of the function,"
                    " or read it in the kernel",
                    T)
  }
#define ASTRA_HOST_COPY "a launcher cannot read device memory, and every tensor is on the GPU"
#define ASTRA_PRODUCT "it launches a kernel of torch's library; launch your own kernel instead"
  ASTRA_MISSING(cpu, ASTRA_HOST_COPY)
  ASTRA_MISSING(cuda, ASTRA_HOST_COPY)
  ASTRA_MISSING(accessor, ASTRA_HOST_COPY)
  ASTRA_MISSING(resize_, "task.toml determines the sizes of a tensor")
#define ASTRA_COMPUTED(name) ASTRA_MISSING(name, ASTRA_PRODUCT)
  ASTRA_COMPUTED(sum) ASTRA_COMPUTED(mean) ASTRA_COMPUTED(max) ASTRA_COMPUTED(min)
  ASTRA_COMPUTED(amax) ASTRA_COMPUTED(abs) ASTRA_COMPUTED(mul) ASTRA_COMPUTED(mul_)
  ASTRA_COMPUTED(add) ASTRA_COMPUTED(add_) ASTRA_COMPUTED(sub) ASTRA_COMPUTED(div)
  ASTRA_COMPUTED(div_) ASTRA_COMPUTED(matmul) ASTRA_COMPUTED(mm) ASTRA_COMPUTED(bmm)
  ASTRA_COMPUTED(cumsum) ASTRA_COMPUTED(sort) ASTRA_COMPUTED(argsort) ASTRA_COMPUTED(topk)
  ASTRA_COMPUTED(softmax) ASTRA_COMPUTED(index_select) ASTRA_COMPUTED(scatter_)
  ASTRA_COMPUTED(gather) ASTRA_COMPUTED(repeat) ASTRA_COMPUTED(masked_fill)
  ASTRA_COMPUTED(masked_fill_) ASTRA_COMPUTED(repeat_interleave) ASTRA_COMPUTED(sub_)
  ASTRA_COMPUTED(neg) ASTRA_COMPUTED(exp) ASTRA_COMPUTED(log) ASTRA_COMPUTED(sqrt)
  ASTRA_COMPUTED(rsqrt) ASTRA_COMPUTED(pow) ASTRA_COMPUTED(clamp) ASTRA_COMPUTED(clamp_)
  ASTRA_COMPUTED(all) ASTRA_COMPUTED(any) ASTRA_COMPUTED(eq) ASTRA_COMPUTED(ne) ASTRA_COMPUTED(lt)
  ASTRA_COMPUTED(gt) ASTRA_COMPUTED(le) ASTRA_COMPUTED(ge) ASTRA_COMPUTED(nonzero)
  ASTRA_COMPUTED(unique) ASTRA_COMPUTED(norm) ASTRA_COMPUTED(prod) ASTRA_COMPUTED(std)
  ASTRA_COMPUTED(var) ASTRA_COMPUTED(argmax) ASTRA_COMPUTED(argmin) ASTRA_COMPUTED(sigmoid)
  ASTRA_COMPUTED(tanh) ASTRA_COMPUTED(relu) ASTRA_COMPUTED(round) ASTRA_COMPUTED(floor)
  ASTRA_COMPUTED(ceil) ASTRA_COMPUTED(square) ASTRA_COMPUTED(reciprocal)
  ASTRA_COMPUTED(masked_select) ASTRA_COMPUTED(index_add_)
  ASTRA_COMPUTED(index_copy_) ASTRA_COMPUTED(scatter)
  ASTRA_COMPUTED(scatter_add_) ASTRA_COMPUTED(flip) ASTRA_COMPUTED(roll) ASTRA_COMPUTED(triu)
  ASTRA_COMPUTED(tril) ASTRA_COMPUTED(logsumexp) ASTRA_COMPUTED(log_softmax) ASTRA_COMPUTED(addmm)
  ASTRA_COMPUTED(dot)
#undef ASTRA_COMPUTED

  template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits, class Index = int64_t>
  auto packed_accessor() const {
    return GenericPackedTensorAccessor<T, N, Traits, Index>(*this);
  }
  template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits>
  auto packed_accessor32() const {
    return packed_accessor<T, N, Traits, int32_t>();
  }
  template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits>
  auto packed_accessor64() const {
    return packed_accessor<T, N, Traits, int64_t>();
  }

 private:
  const Place& here() const {
    if (!place_) astra::fail("", "an undefined tensor is used");
    return *place_;
  }
  int64_t wrapped(int64_t axis) const {
    const int64_t rank = dim();
    TORCH_CHECK(axis >= -rank && axis < rank, "axis ", axis, " of a tensor with ", rank, " axes");
    return axis < 0 ? axis + rank : axis;
  }
  Tensor at(int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides) const {
    Place place = here();
    place.data = static_cast<char*>(place.data) + offset * static_cast<int64_t>(element_size());
    place.offset += offset;
    place.sizes = std::move(sizes);
    place.strides = std::move(strides);
    return Tensor(std::move(place));
  }
  // Strides of the same elements under other sizes; an error where only a copy would have these.
  std::vector<int64_t> strides_as(const std::vector<int64_t>& sizes) const {
    std::vector<int64_t> strides(sizes.size(), 1);
    if (numel() == 0 || is_contiguous()) return dense_strides(sizes);
    int64_t to = static_cast<int64_t>(sizes.size()) - 1, chunk = 1, base = stride(-1), held = 1;
    for (int64_t from = dim() - 1; from >= 0; --from) {
      chunk *= size(from);
      const bool ends = from == 0 || (size(from - 1) != 1 && stride(from - 1) != chunk * base);
      if (!ends) continue;
      while (to >= 0 && (held < chunk || sizes[to] == 1)) {
        strides[to] = held * base;
        held *= sizes[to--];
      }
      TORCH_CHECK(held == chunk, "a view with sizes ", IntArrayRef(sizes), " of sizes ", this->sizes(),
                  " and strides ", this->strides(), " needs a copy");
      if (from > 0) base = stride(from - 1), chunk = held = 1;
    }
    return strides;
  }

  std::shared_ptr<const Place> place_;
};
using TensorBase = Tensor;
using TensorList = c10::ArrayRef<Tensor>;

inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) {
  TORCH_CHECK(options.place.is_cuda(), "the function makes a tensor in host memory: every tensor is on the GPU");
  return Tensor::dense(astra::allocate(sizes, options.type), sizes, options.type);
}
inline Tensor full(IntArrayRef sizes, const c10::Scalar& value, const TensorOptions& options = {}) {
  return empty(sizes, options).fill_(value);
}
inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, 0, options); }
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, 1, options); }
#define ASTRA_BRACED(name)                                                                        \
  inline Tensor name(std::initializer_list<int64_t> sizes, const TensorOptions& options = {}) {   \
    return name(IntArrayRef(sizes), options);                                                     \
  }
ASTRA_BRACED(empty)
ASTRA_BRACED(zeros)
ASTRA_BRACED(ones)
#undef ASTRA_BRACED
inline Tensor empty_symint(IntArrayRef sizes, const TensorOptions& options = {}) { return empty(sizes, options); }
inline Tensor empty_symint(std::initializer_list<int64_t> sizes, const TensorOptions& options = {}) {
  return empty(IntArrayRef(sizes), options);
}
inline Tensor full(std::initializer_list<int64_t> sizes, const c10::Scalar& value, const TensorOptions& options = {}) {
  return full(IntArrayRef(sizes), value, options);
}
inline Tensor empty_like(const Tensor& like, const TensorOptions& options) { return empty(like.sizes(), options); }
inline Tensor empty_like(const Tensor& like) { return empty(like.sizes(), like.options()); }
inline Tensor empty_like(const Tensor& like, c10::MemoryFormat) { return empty_like(like); }
inline Tensor empty_like(const Tensor& like, const TensorOptions& options, c10::MemoryFormat) {
  return empty_like(like, options);
}
inline Tensor zeros_like(const Tensor& like) { return zeros(like.sizes(), like.options()); }
inline Tensor zeros_like(const Tensor& like, const TensorOptions& options) { return zeros(like.sizes(), options); }
inline Tensor ones_like(const Tensor& like) { return ones(like.sizes(), like.options()); }
inline Tensor full_like(const Tensor& like, const c10::Scalar& v) { return full(like.sizes(), v, like.options()); }
inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  const Tensor made = empty(sizes, options);
  TORCH_CHECK(c10::IntArrayRef(Tensor::dense_strides(sizes)) == strides, "empty_strided supports only contiguous tensors");
  return made;
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return Tensor::dense(data, sizes, options.type);
}
inline int64_t numel(const Tensor& tensor) { return tensor.numel(); }
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(caffe2::TypeMeta type) { return TensorOptions(type); }
inline TensorOptions device(Device place) { return TensorOptions(place); }
inline TensorOptions device(c10::DeviceType type) { return TensorOptions(type); }

inline Tensor Tensor::clone(c10::MemoryFormat) const { return empty_like(*this).copy_(*this); }
inline Tensor Tensor::new_empty(IntArrayRef sizes) const { return empty(sizes, options()); }
inline Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& o) const { return empty(sizes, o); }
inline Tensor Tensor::new_zeros(IntArrayRef sizes) const { return zeros(sizes, options()); }

// torch's functions that launch kernels of its library.
#define ASTRA_NO_FUNCTION(name)                                                                        \
  template <class... A>                                                                                \
  Tensor name(const A&...) {                                                                           \
    ASTRA_NOT_THERE("at::" #name "()", ASTRA_PRODUCT, A...)                                            \
  }
ASTRA_NO_FUNCTION(mm) ASTRA_NO_FUNCTION(bmm) ASTRA_NO_FUNCTION(matmul) ASTRA_NO_FUNCTION(addmm)
ASTRA_NO_FUNCTION(linear) ASTRA_NO_FUNCTION(sum) ASTRA_NO_FUNCTION(mean) ASTRA_NO_FUNCTION(max)
ASTRA_NO_FUNCTION(min) ASTRA_NO_FUNCTION(softmax) ASTRA_NO_FUNCTION(cat) ASTRA_NO_FUNCTION(stack)
ASTRA_NO_FUNCTION(arange) ASTRA_NO_FUNCTION(cumsum) ASTRA_NO_FUNCTION(sort) ASTRA_NO_FUNCTION(topk)
ASTRA_NO_FUNCTION(where) ASTRA_NO_FUNCTION(rand) ASTRA_NO_FUNCTION(randn) ASTRA_NO_FUNCTION(tensor)
#undef ASTRA_NO_FUNCTION
// Those whose names numbers have too.
#define ASTRA_NO_FUNCTION(name)                                                                        \
  template <class... A>                                                                                \
  Tensor name(const Tensor&, const A&...) {                                                            \
    ASTRA_NOT_THERE("at::" #name "()", ASTRA_PRODUCT, A..., Tensor)                                    \
  }
ASTRA_NO_FUNCTION(abs) ASTRA_NO_FUNCTION(exp) ASTRA_NO_FUNCTION(log) ASTRA_NO_FUNCTION(sqrt)
ASTRA_NO_FUNCTION(rsqrt) ASTRA_NO_FUNCTION(pow) ASTRA_NO_FUNCTION(add) ASTRA_NO_FUNCTION(sub)
ASTRA_NO_FUNCTION(mul) ASTRA_NO_FUNCTION(div) ASTRA_NO_FUNCTION(clamp) ASTRA_NO_FUNCTION(relu)
ASTRA_NO_FUNCTION(sigmoid) ASTRA_NO_FUNCTION(tanh) ASTRA_NO_FUNCTION(norm) ASTRA_NO_FUNCTION(prod)
ASTRA_NO_FUNCTION(any) ASTRA_NO_FUNCTION(all) ASTRA_NO_FUNCTION(argmax) ASTRA_NO_FUNCTION(argmin)
ASTRA_NO_FUNCTION(argsort) ASTRA_NO_FUNCTION(index_select) ASTRA_NO_FUNCTION(index)
ASTRA_NO_FUNCTION(gather) ASTRA_NO_FUNCTION(scatter) ASTRA_NO_FUNCTION(nonzero)
ASTRA_NO_FUNCTION(log_softmax) ASTRA_NO_FUNCTION(repeat_interleave) ASTRA_NO_FUNCTION(bincount)
ASTRA_NO_FUNCTION(mm_out) ASTRA_NO_FUNCTION(matmul_out) ASTRA_NO_FUNCTION(sum_out)
ASTRA_NO_FUNCTION(add_out) ASTRA_NO_FUNCTION(copysign) ASTRA_NO_FUNCTION(floor_divide)
#undef ASTRA_NO_FUNCTION

#define ASTRA_NO_OPERATOR(op)                                                                  \
  template <class T>                                                                           \
  Tensor operator op(const Tensor&, const T&) {                                                \
    ASTRA_NOT_THERE("Tensor::operator" #op, ASTRA_PRODUCT, T)                                  \
  }                                                                                            \
  template <class T, class = std::enable_if_t<!std::is_same_v<T, Tensor>>>                     \
  Tensor operator op(const T&, const Tensor&) {                                                \
    ASTRA_NOT_THERE("Tensor::operator" #op, ASTRA_PRODUCT, T)                                  \
  }
ASTRA_NO_OPERATOR(+)
ASTRA_NO_OPERATOR(-)
ASTRA_NO_OPERATOR(*)
ASTRA_NO_OPERATOR(/)
#undef ASTRA_NO_OPERATOR
#define ASTRA_NO_OPERATOR(op)                                          \
  template <class T>                                                   \
  const Tensor& operator op(const Tensor& tensor, const T&) {          \
    ASTRA_NOT_THERE("Tensor::operator" #op, ASTRA_PRODUCT, T)          \
    return tensor;                                                     \
  }
ASTRA_NO_OPERATOR(+=)
ASTRA_NO_OPERATOR(-=)
ASTRA_NO_OPERATOR(*=)
ASTRA_NO_OPERATOR(/=)
#undef ASTRA_NO_OPERATOR

// A tensor as kernels take it by value.
template <class T, size_t N, template <class, size_t> class Traits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
 public:
  __host__ __device__ TensorAccessor(T* data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ decltype(auto) operator[](Index i) const {
    if constexpr (N == 1)
      return static_cast<T&>(data_[i * strides_[0]]);
    else
      return TensorAccessor<T, N - 1, Traits, Index>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  __host__ __device__ Index size(int i) const { return sizes_[i]; }
  __host__ __device__ Index stride(int i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }

 private:
  T* data_;
  const Index *sizes_, *strides_;
};
template <class T, size_t N, template <class, size_t> class Traits, class Index>
class GenericPackedTensorAccessor {
 public:
  explicit GenericPackedTensorAccessor(const Tensor& tensor) : data_(tensor.data_ptr<T>()) {
    TORCH_CHECK(tensor.dim() == static_cast<int64_t>(N), "an accessor of ", N, " axes for ", tensor.dim());
    for (size_t i = 0; i < N; ++i) sizes_[i] = tensor.size(i), strides_[i] = tensor.stride(i);
  }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
  }
  __host__ __device__ Index size(int i) const { return sizes_[i]; }
  __host__ __device__ Index stride(int i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }

 private:
  T* data_;
  Index sizes_[N], strides_[N];
};

}  // namespace at
#undef ASTRA_MISSING
