// Dtypes as torch numbers them, each with its C++ type, and the contract's codes of them.
#pragma once
#include <cstddef>

#include "error.h"
#include "small_floats.h"

// ASTRA_TYPES(F): F(number, C++ type, torch's name, bytes).
#define ASTRA_TYPES(F)                                        \
  F(0, uint8_t, Byte, 1)                                      \
  F(1, int8_t, Char, 1)                                       \
  F(2, int16_t, Short, 2)                                     \
  F(3, int, Int, 4)                                           \
  F(4, int64_t, Long, 8)                                      \
  F(5, c10::Half, Half, 2)                                    \
  F(6, float, Float, 4)                                       \
  F(7, double, Double, 8)                                     \
  F(11, bool, Bool, 1)                                        \
  F(15, c10::BFloat16, BFloat16, 2)                           \
  F(23, c10::Float8_e5m2, Float8_e5m2, 1)                     \
  F(24, c10::Float8_e4m3fn, Float8_e4m3fn, 1)                 \
  F(25, c10::Float8_e5m2fnuz, Float8_e5m2fnuz, 1)             \
  F(26, c10::Float8_e4m3fnuz, Float8_e4m3fnuz, 1)             \
  F(27, uint16_t, UInt16, 2)                                  \
  F(28, uint32_t, UInt32, 4)                                  \
  F(29, uint64_t, UInt64, 8)                                  \
  F(44, c10::Float8_e8m0fnu, Float8_e8m0fnu, 1)               \
  F(45, c10::Float4_e2m1fn_x2, Float4_e2m1fn_x2, 1)

namespace c10 {

enum class ScalarType : int8_t {
#define ASTRA_TYPE(number, type, name, bytes) name = number,
  ASTRA_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE
      ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  Undefined = 46,
};

inline size_t elementSize(ScalarType type) {
  switch (type) {
#define ASTRA_TYPE(number, ctype, name, bytes) \
  case ScalarType::name:                       \
    return bytes;
    ASTRA_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE
    default:
      return 0;
  }
}

inline const char* toString(ScalarType type) {
  switch (type) {
#define ASTRA_TYPE(number, ctype, name, bytes) \
  case ScalarType::name:                       \
    return #name;
    ASTRA_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE
    default:
      return "Undefined";
  }
}
inline std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

template <class T>
struct CppTypeToScalarType;
template <ScalarType type>
struct ScalarTypeToCPPType;
#define ASTRA_TYPE(number, ctype, name, bytes)                                                  \
  template <>                                                                                   \
  struct CppTypeToScalarType<ctype> : std::integral_constant<ScalarType, ScalarType::name> {};  \
  template <>                                                                                   \
  struct ScalarTypeToCPPType<ScalarType::name> {                                                \
    using type = ctype;                                                                         \
  };                                                                                            \
  constexpr ScalarType k##name = ScalarType::name;
ASTRA_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<type>::type;
namespace impl {
using c10::ScalarTypeToCPPType;
using c10::ScalarTypeToCPPTypeT;
}  // namespace impl

// CUDA's own names of the same numbers, for data_ptr<T>().
template <>
struct CppTypeToScalarType<__half> : CppTypeToScalarType<Half> {};
template <>
struct CppTypeToScalarType<__nv_bfloat16> : CppTypeToScalarType<BFloat16> {};
template <>
struct CppTypeToScalarType<__nv_fp8_e4m3> : CppTypeToScalarType<Float8_e4m3fn> {};
template <>
struct CppTypeToScalarType<__nv_fp8_e5m2> : CppTypeToScalarType<Float8_e5m2> {};
template <>
struct CppTypeToScalarType<long long> : CppTypeToScalarType<int64_t> {};
template <>
struct CppTypeToScalarType<unsigned long long> : CppTypeToScalarType<uint64_t> {};

constexpr ScalarType kUInt8 = ScalarType::Byte, kInt8 = ScalarType::Char, kInt16 = ScalarType::Short,
                     kInt32 = ScalarType::Int, kInt64 = ScalarType::Long, kF16 = ScalarType::Half,
                     kFloat16 = ScalarType::Half, kFloat32 = ScalarType::Float, kF32 = ScalarType::Float,
                     kFloat64 = ScalarType::Double, kF64 = ScalarType::Double, kI64 = ScalarType::Long,
                     kI32 = ScalarType::Int, kU8 = ScalarType::Byte;

inline bool isFloat8Type(ScalarType t) {
  return t == kFloat8_e4m3fn || t == kFloat8_e5m2 || t == kFloat8_e4m3fnuz || t == kFloat8_e5m2fnuz;
}
inline bool isReducedFloatingType(ScalarType t) { return t == kHalf || t == kBFloat16 || isFloat8Type(t); }
inline bool isFloatingType(ScalarType t) { return t == kFloat || t == kDouble || isReducedFloatingType(t); }
inline bool isIntegralType(ScalarType t, bool with_bool = false) {
  return (static_cast<int>(t) >= 0 && static_cast<int>(t) <= 4) || t == kUInt16 || t == kUInt32 ||
         t == kUInt64 || (with_bool && t == kBool);
}
inline ScalarType toOpMathType(ScalarType t) { return isReducedFloatingType(t) ? kFloat : t; }

}  // namespace c10

namespace caffe2 {

// What Tensor::dtype() gives: a ScalarType by another name.
struct TypeMeta {
  c10::ScalarType type = c10::ScalarType::Undefined;
  TypeMeta() = default;
  TypeMeta(c10::ScalarType t) : type(t) {}
  operator c10::ScalarType() const { return type; }
  c10::ScalarType toScalarType() const { return type; }
  size_t itemsize() const { return c10::elementSize(type); }
  std::string_view name() const { return c10::toString(type); }
  template <class T>
  static TypeMeta Make() {
    return c10::CppTypeToScalarType<T>::value;
  }
  template <class T>
  bool Match() const {
    return type == c10::CppTypeToScalarType<T>::value;
  }
};
inline bool operator==(TypeMeta a, TypeMeta b) { return a.type == b.type; }
inline bool operator!=(TypeMeta a, TypeMeta b) { return a.type != b.type; }
inline bool operator==(TypeMeta a, c10::ScalarType b) { return a.type == b; }
inline bool operator!=(TypeMeta a, c10::ScalarType b) { return a.type != b; }
inline bool operator==(c10::ScalarType a, TypeMeta b) { return a == b.type; }
inline bool operator!=(c10::ScalarType a, TypeMeta b) { return a != b.type; }
inline std::ostream& operator<<(std::ostream& out, TypeMeta t) { return out << t.name(); }

}  // namespace caffe2

namespace c10 {
using caffe2::TypeMeta;
inline ScalarType typeMetaToScalarType(TypeMeta meta) { return meta.type; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }
}  // namespace c10

namespace astra {

// Codes of tools/types.py DTYPE_CODES, the launcher's `dtype` arguments.
inline c10::ScalarType type_of_code(int code) {
  constexpr c10::ScalarType types[] = {
      c10::kFloat, c10::kHalf, c10::kBFloat16, c10::kFloat8_e4m3fn, c10::kFloat8_e5m2,   c10::kChar,
      c10::kByte,  c10::kInt,  c10::kLong,     c10::kBool,          c10::kFloat8_e8m0fnu};
  TORCH_CHECK(code >= 0 && code < 11, "no dtype has the code ", code);
  return types[code];
}

}  // namespace astra
