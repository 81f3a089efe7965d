// TORCH_LIBRARY, PYBIND11_MODULE and tvm-ffi's export: each leaves a function in one table, with which
// the launcher looks for the operator that it calls. Nothing runs when the library is loaded.
#pragma once
#include "values.h"

namespace astra {

// Looks through what a file registers: calls the operator with this name.
struct Search {
  std::string name;
  const Values* values;
  std::vector<at::Tensor> returned;
  bool found = false;

  // "ops::rms_norm(Tensor! out, ...) -> ()" and "ops.rms_norm" are the operator rms_norm.
  static std::string_view bare(std::string_view schema) {
    schema = schema.substr(0, schema.find('('));
    const size_t scope = schema.find_last_of(":.");
    return scope == std::string_view::npos ? schema : schema.substr(scope + 1);
  }
  template <class F>
  void offer(std::string_view called, F function) {
    if (found || bare(called) != name) return;
    found = true;
    returned = invoke(as_function(function), *values);
  }
};

using Registration = void (*)(Search&);

}  // namespace astra

#define ASTRA_JOINED(a, b) a##b
#define ASTRA_JOIN(a, b) ASTRA_JOINED(a, b)
// The table's name: of several files that are compiled as one, each has its own.
#define ASTRA_OPERATORS "astra_operators"
#define ASTRA_REGISTRATION(id, ...)                                                      \
  static void ASTRA_JOIN(astra_registers_, id)(::astra::Search & search);                \
  __attribute__((section(ASTRA_OPERATORS), used)) static const ::astra::Registration     \
      ASTRA_JOIN(astra_registration_, id) = &ASTRA_JOIN(astra_registers_, id);           \
  static void ASTRA_JOIN(astra_registers_, id)(::astra::Search & search) __VA_ARGS__

// First and last entry of the table; null where a file registers nothing.
extern "C" __attribute__((weak, visibility("hidden"))) const ::astra::Registration __start_astra_operators[];
extern "C" __attribute__((weak, visibility("hidden"))) const ::astra::Registration __stop_astra_operators[];

namespace torch {

struct CppFunction {
  template <class F>
  explicit CppFunction(F) {}
};
enum class DispatchKey { CUDA, CPU, Meta, CompositeExplicitAutograd, CompositeImplicitAutograd, Undefined };
constexpr DispatchKey kCUDAKey = DispatchKey::CUDA;

class Library {
 public:
  enum Kind { DEF, IMPL, FRAGMENT };
  explicit Library(astra::Search& search) : search_(search) {}
  template <class... More>
  Library& def(const char*, const More&... more) {
    return *this;
  }
  Library& def(const char*) { return *this; }
  template <class F, class = decltype(astra::as_function(std::declval<F>()))>
  Library& def(const char* schema, F function) {
    search_.offer(schema, function);
    return *this;
  }
  template <class F, class = decltype(astra::as_function(std::declval<F>()))>
  Library& impl(const char* name, F function) {
    search_.offer(name, function);
    return *this;
  }
  template <class F>
  Library& impl(const char* name, c10::DeviceType place, F function) {
    if (place == c10::kCUDA) search_.offer(name, function);
    return *this;
  }
  template <class F>
  Library& impl(const char* name, DispatchKey key, F function) {
    if (key == DispatchKey::CUDA) search_.offer(name, function);
    return *this;
  }
  template <class... More>
  Library& set_python_module(const More&...) {
    return *this;
  }

 private:
  astra::Search& search_;
};
enum class Tag { pt2_compliant_tag, needs_fixed_stride_order, flexible_layout };

template <class F>
CppFunction dispatch(DispatchKey, F function) {
  return CppFunction(function);
}

}  // namespace torch

#define TORCH_LIBRARY(space, library) ASTRA_REGISTERED(__COUNTER__, library)
#define TORCH_LIBRARY_FRAGMENT(space, library) TORCH_LIBRARY(space, library)
#define TORCH_LIBRARY_IMPL(space, key, library) ASTRA_LIBRARY_IMPL_##key(space, library)
#define STABLE_TORCH_LIBRARY TORCH_LIBRARY
#define STABLE_TORCH_LIBRARY_FRAGMENT TORCH_LIBRARY_FRAGMENT
#define STABLE_TORCH_LIBRARY_IMPL TORCH_LIBRARY_IMPL
#define ASTRA_REGISTERED(id, library)                                         \
  static void ASTRA_JOIN(astra_library_, id)(::torch::Library & library);  \
  ASTRA_REGISTRATION(id, {                                                 \
    ::torch::Library library(search);                                      \
    ASTRA_JOIN(astra_library_, id)(library);                               \
  })                                                                       \
  static void ASTRA_JOIN(astra_library_, id)([[maybe_unused]] ::torch::Library & library)
// Of the implementations for dispatch keys, that for CUDA is called; others are functions nobody calls.
#define ASTRA_LIBRARY_IMPL_CUDA(space, library) TORCH_LIBRARY(space, library)
#define ASTRA_LIBRARY_UNUSED(space, library) \
  [[maybe_unused]] static void ASTRA_JOIN(astra_unused_library_, __COUNTER__)([[maybe_unused]] ::torch::Library & library)
#define ASTRA_LIBRARY_IMPL_CPU ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_Meta ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_HIP ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_XPU ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_MPS ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_AutogradCPU ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_Autograd ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_AutogradCUDA ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_CompositeExplicitAutograd ASTRA_LIBRARY_UNUSED
#define ASTRA_LIBRARY_IMPL_CompositeImplicitAutograd TORCH_LIBRARY

namespace pybind11 {

struct arg {
  explicit constexpr arg(const char*) {}
  template <class T>
  arg& operator=(T&&) {
    return *this;
  }
  template <class T>
  arg operator=(T&&) const {
    return *this;
  }
  arg& noconvert() { return *this; }
};
inline arg operator""_a(const char* name, size_t) { return arg(name); }
namespace literals {
using pybind11::operator""_a;
}
struct none {};
struct kw_only {};
template <class T>
struct call_guard {};
struct gil_scoped_release {};
struct gil_scoped_acquire {};

// Arrays of numpy are host memory.
template <class T, int flags = 0>
struct array_t {
#define ASTRA_NO_ARRAY(result, name) \
  template <class... Axes>           \
  result name(Axes...) const { ASTRA_NOT_THERE("pybind11::array_t", "every tensor is on the GPU", T) }
  ASTRA_NO_ARRAY(::at::Tensor, request)
  ASTRA_NO_ARRAY(T*, data)
  ASTRA_NO_ARRAY(T*, mutable_data)
  ASTRA_NO_ARRAY(T&, mutable_at)
  ASTRA_NO_ARRAY(T, at)
  ASTRA_NO_ARRAY(size_t, size)
  ASTRA_NO_ARRAY(size_t, nbytes)
  ASTRA_NO_ARRAY(size_t, ndim)
  ASTRA_NO_ARRAY(const size_t*, shape)
  ASTRA_NO_ARRAY(const size_t*, strides)
};

class module_ {
 public:
  explicit module_(astra::Search& search) : search_(search) {}
  template <class F, class... More>
  module_& def(const char* name, F function, const More&...) {
    search_.offer(name, function);
    return *this;
  }
  template <class... More>
  module_ def_submodule(const char*, const More&...) {
    return *this;
  }
  std::string& doc() { return doc_; }

 private:
  astra::Search& search_;
  std::string doc_;
};
using module = module_;

}  // namespace pybind11
namespace py = pybind11;

#define PYBIND11_MODULE(name, module, ...)                                     \
  static void ASTRA_JOIN(astra_module_, name)(::pybind11::module_ & module);   \
  ASTRA_REGISTRATION(name, {                                                   \
    ::pybind11::module_ module(search);                                        \
    ASTRA_JOIN(astra_module_, name)(module);                                   \
  })                                                                           \
  static void ASTRA_JOIN(astra_module_, name)([[maybe_unused]] ::pybind11::module_ & module)
#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME astra_extension
#endif
