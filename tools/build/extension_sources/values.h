// What a launcher passes to the user's function: values that become the parameters' own types.
#pragma once
#include "cuda.h"

namespace astra {

struct Value {
  enum Kind { kNone, kTensor, kInt, kFloat, kBool, kText, kType, kList, kTensors } kind = kNone;
  at::Tensor tensor;
  int64_t number = 0;
  double real = 0;
  std::string text;
  c10::ScalarType type = c10::ScalarType::Undefined;
  std::vector<int64_t> list;
  std::vector<Value> parts;  // tensors, or lists of them
  std::vector<at::Tensor> tensors;

  Value() = default;
  Value(const at::Tensor& t) : kind(t.defined() ? kTensor : kNone), tensor(t) {}
  Value(int64_t n) : kind(kInt), number(n), real(static_cast<double>(n)) {}
  Value(double d) : kind(kFloat), real(d) {}
  Value(bool b) : kind(kBool), number(b), real(b) {}
  Value(const char* t) : kind(kText), text(t) {}
  Value(c10::ScalarType t) : kind(kType), type(t) {}
  Value(std::vector<int64_t> l) : kind(kList), list(std::move(l)) {}
  Value(std::vector<Value> all) : kind(kTensors), parts(std::move(all)) {
    for (const Value& one : parts) tensors.push_back(one.tensor);
  }
};

[[noreturn]] inline void misfit(const Value& value, const char* wanted) {
  static const char* names[] = {"nothing", "a tensor", "an integer", "a float", "a bool", "a string", "a dtype", "a list", "a list of tensors"};
  fail("", names[value.kind], " is passed for a parameter that is ", wanted, ": correct [binding] in task.toml");
}

// Of a type that is not among those below.
template <class T, class = void>
struct As {
  [[noreturn]] static T from(const Value& value) { misfit(value, "of a type that contracts do not support"); }
};

#define ASTRA_AS(type, test, wanted, expression)  \
  template <>                                     \
  struct As<type> {                               \
    static type from(const Value& v) {            \
      if (!(test)) misfit(v, wanted);             \
      return expression;                          \
    }                                             \
  };
ASTRA_AS(at::Tensor, v.kind == Value::kTensor || v.kind == Value::kNone, "a tensor", v.tensor)
ASTRA_AS(bool, v.kind == Value::kBool || v.kind == Value::kInt, "a bool", v.number != 0)
ASTRA_AS(c10::ScalarType, v.kind == Value::kType, "a dtype", v.type)
ASTRA_AS(std::string, v.kind == Value::kText, "a string", v.text)
ASTRA_AS(std::string_view, v.kind == Value::kText, "a string", std::string_view(v.text))
ASTRA_AS(const char*, v.kind == Value::kText, "a string", v.text.c_str())
ASTRA_AS(c10::Scalar, v.kind == Value::kFloat || v.kind == Value::kInt, "a number",
         v.kind == Value::kInt ? c10::Scalar(v.number) : c10::Scalar(v.real))
ASTRA_AS(c10::IntArrayRef, v.kind == Value::kList, "a list", c10::IntArrayRef(v.list))
ASTRA_AS(at::TensorList, v.kind == Value::kTensors, "a list of tensors", at::TensorList(v.tensors))
ASTRA_AS(cudaStream_t, v.kind == Value::kNone, "the stream", call().stream)
ASTRA_AS(c10::Device, v.kind == Value::kNone, "a device", c10::Device(c10::kCUDA))

template <class T>
struct As<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static T from(const Value& v) {
    if (v.kind != Value::kInt && v.kind != Value::kBool) misfit(v, "an integer");
    return static_cast<T>(v.number);
  }
};
#define ASTRA_AS_FLOAT(type) \
  ASTRA_AS(type, v.kind == Value::kFloat || v.kind == Value::kInt, "a number", type(static_cast<float>(v.real)))
ASTRA_AS_FLOAT(__half)
ASTRA_AS_FLOAT(__nv_bfloat16)
ASTRA_AS_FLOAT(c10::Half)
ASTRA_AS_FLOAT(c10::BFloat16)
template <class T>
struct As<T, std::enable_if_t<std::is_enum_v<T> && !std::is_same_v<T, c10::ScalarType>>> {
  static T from(const Value& v) {
    if (v.kind != Value::kInt) misfit(v, "an integer");
    return static_cast<T>(v.number);
  }
};
template <class T>
struct As<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static T from(const Value& v) {
    if (v.kind != Value::kFloat && v.kind != Value::kInt) misfit(v, "a float");
    return static_cast<T>(v.real);
  }
};
template <class T>
struct As<std::vector<T>> {
  static std::vector<T> from(const Value& v) {
    if constexpr (std::is_integral_v<T>) {
      if (v.kind != Value::kList) misfit(v, "a list");
      return {v.list.begin(), v.list.end()};
    } else {
      if (v.kind != Value::kTensors) misfit(v, "a list of tensors");
      std::vector<T> all;
      for (const Value& one : v.parts) all.push_back(As<T>::from(one));
      return all;
    }
  }
};
template <class T>
struct As<std::optional<T>> {
  static std::optional<T> from(const Value& v) {
    if (v.kind == Value::kNone) return {};
    return As<T>::from(v);
  }
};
// A pointer to elements: of a launcher that takes no tensors.
template <class T>
struct As<T*, std::enable_if_t<!std::is_same_v<T*, cudaStream_t> && !std::is_same_v<T*, const char*>>> {
  static T* from(const Value& v) {
    if (v.kind != Value::kTensor && v.kind != Value::kNone) misfit(v, "a pointer");
    return static_cast<T*>(v.tensor.data_ptr());
  }
};

// The tensors among what a function returns.
template <class T>
void collect(std::vector<at::Tensor>&, const T&) {}
inline void collect(std::vector<at::Tensor>& found, const at::Tensor& t) { found.push_back(t); }
inline void collect(std::vector<at::Tensor>& found, const std::vector<at::Tensor>& ts) {
  found.insert(found.end(), ts.begin(), ts.end());
}
template <class T>
void collect(std::vector<at::Tensor>& found, const std::optional<T>& t) {
  if (t) collect(found, *t);
}
template <class... T>
void collect(std::vector<at::Tensor>& found, const std::tuple<T...>& ts) {
  std::apply([&](const auto&... each) { (collect(found, each), ...); }, ts);
}
template <class A, class B>
void collect(std::vector<at::Tensor>& found, const std::pair<A, B>& ts) {
  collect(found, ts.first);
  collect(found, ts.second);
}
inline void collect(std::vector<at::Tensor>&, cudaError_t error) { require(error, "the function"); }

using Values = std::vector<Value>;

template <class R, class... P, size_t... i>
std::vector<at::Tensor> invoke(R (*function)(P...), const Values& values, std::index_sequence<i...>) {
  // Parameters that are references refer to these.
  std::tuple<std::decay_t<P>...> held(As<std::decay_t<P>>::from(values[i])...);
  std::vector<at::Tensor> returned;
  if constexpr (std::is_void_v<R>)
    function(static_cast<P&&>(std::get<i>(held))...);
  else
    collect(returned, function(static_cast<P&&>(std::get<i>(held))...));
  return returned;
}
template <class R, class... P>
std::vector<at::Tensor> invoke(R (*function)(P...), const Values& values) {
  TORCH_CHECK(values.size() == sizeof...(P), "the function takes ", sizeof...(P), " arguments, but [binding] in"
              " task.toml passes ", values.size());
  return invoke(function, values, std::index_sequence_for<P...>());
}

// A lambda without captures is a function; what has captures is not registered by kernel files.
template <class R, class... P>
auto as_function(R (*function)(P...)) {
  return function;
}
template <class F, class = decltype(+std::declval<F>())>
auto as_function(F function) {
  return +function;
}

}  // namespace astra
