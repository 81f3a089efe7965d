// AT_DISPATCH_*: a switch over a dtype, in each of whose cases a name stands for the C++ type.
#pragma once
#include "tensor.h"

#define AT_DISPATCH_SWITCH(type, name, ...)                                              \
  [&] {                                                                                  \
    const ::at::ScalarType astra_type = ::astra::type_in(type);                          \
    [[maybe_unused]] constexpr const char* at_dispatch_name = name;                      \
    switch (astra_type) {                                                                \
      __VA_ARGS__                                                                        \
      default:                                                                           \
        ::astra::fail("", '"', name, "\" not implemented for '", astra_type, "'");       \
    }                                                                                    \
  }()
#define AT_PRIVATE_CASE_TYPE_USING_HINT(which, hint, ...)                                \
  case which: {                                                                          \
    using hint [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<which>;              \
    return __VA_ARGS__();                                                                \
  }
#define AT_DISPATCH_CASE(which, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(which, scalar_t, __VA_ARGS__)
#define AT_PRIVATE_CASE_TYPE(name, which, ctype, ...) \
  case which: {                                       \
    using scalar_t [[maybe_unused]] = ctype;          \
    return __VA_ARGS__();                             \
  }

namespace astra {
inline c10::ScalarType type_in(c10::ScalarType type) { return type; }
inline c10::ScalarType type_in(const caffe2::TypeMeta& type) { return type.type; }
inline c10::ScalarType type_in(const at::Tensor& tensor) { return tensor.scalar_type(); }
}  // namespace astra

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)              \
  AT_DISPATCH_CASE(::at::ScalarType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)    \
  AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__) \
  AT_DISPATCH_CASE(::at::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)             \
  AT_DISPATCH_CASE(::at::ScalarType::Byte, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::at::ScalarType::Char, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::at::ScalarType::Int, __VA_ARGS__)   \
  AT_DISPATCH_CASE(::at::ScalarType::Long, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

// Types besides a family's own.
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...)   \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)          \
  AT_DISPATCH_CASE(::at::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(a, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)      \
  AT_DISPATCH_CASE(a, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(a, b, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND(a, __VA_ARGS__)   \
  AT_DISPATCH_CASE(b, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(a, b, c, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND2(a, b, __VA_ARGS__)  \
  AT_DISPATCH_CASE(c, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(a, b, c, d, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND3(a, b, c, __VA_ARGS__)  \
  AT_DISPATCH_CASE(d, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES_AND(a, ...) \
  AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__)      \
  AT_DISPATCH_CASE(a, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(a, ...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__)      \
  AT_DISPATCH_CASE(a, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND(a, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)      \
  AT_DISPATCH_CASE(a, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(a, b, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND(a, __VA_ARGS__)   \
  AT_DISPATCH_CASE(b, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(a, b, c, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND2(a, b, __VA_ARGS__)  \
  AT_DISPATCH_CASE(c, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND4(a, b, c, d, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND3(a, b, c, __VA_ARGS__)  \
  AT_DISPATCH_CASE(d, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(a, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND(a, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(a, b, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(a, b, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(a, b, c, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(a, b, c, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND4(a, b, c, d, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND4(a, b, c, d, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES_AND(a, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES_AND(a, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(a, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(a, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(a, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND(a, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(a, b, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND2(a, b, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(a, b, c, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND3(a, b, c, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND4(a, b, c, d, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND4(a, b, c, d, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(type, name, ...)                                                  \
  AT_DISPATCH_SWITCH(type, name,                                                                  \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(::at::ScalarType::Int, index_t, __VA_ARGS__) \
                         AT_PRIVATE_CASE_TYPE_USING_HINT(::at::ScalarType::Long, index_t, __VA_ARGS__))
