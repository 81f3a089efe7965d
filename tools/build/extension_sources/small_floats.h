// c10's 16-bit and 8-bit floats: numbers that convert to and from float and CUDA's own types.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <type_traits>

namespace c10 {

struct alignas(2) Half {
  unsigned short x;
  struct from_bits_t {};
  static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }
  Half() = default;
  constexpr __host__ __device__ Half(unsigned short bits, from_bits_t) : x(bits) {}
  __host__ __device__ Half(float value) : x(__half_as_ushort(__float2half(value))) {}
  __host__ __device__ Half(const __half& value) : x(__half_as_ushort(value)) {}
  __host__ __device__ operator float() const { return __half2float(__ushort_as_half(x)); }
  __host__ __device__ operator __half() const { return __ushort_as_half(x); }
};

struct alignas(2) BFloat16 {
  uint16_t x;
  struct from_bits_t {};
  static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }
  BFloat16() = default;
  constexpr __host__ __device__ BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  __host__ __device__ BFloat16(float value) : x(__bfloat16_as_ushort(__float2bfloat16(value))) {}
  __host__ __device__ BFloat16(const __nv_bfloat16& value) : x(__bfloat16_as_ushort(value)) {}
  __host__ __device__ operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
  __host__ __device__ operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};

#define ASTRA_FLOAT8(Name, kind)                                                              \
  struct alignas(1) Name {                                                                    \
    uint8_t x;                                                                                \
    struct from_bits_t {};                                                                    \
    static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }               \
    Name() = default;                                                                         \
    constexpr __host__ __device__ Name(uint8_t bits, from_bits_t) : x(bits) {}                \
    __host__ __device__ Name(float value) : x(__nv_cvt_float_to_fp8(value, __NV_NOSAT, kind)) {} \
    __host__ __device__ operator float() const {                                              \
      return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, kind)));                          \
    }                                                                                         \
    __host__ __device__ bool isnan() const { return float(*this) != float(*this); }           \
  };
ASTRA_FLOAT8(Float8_e4m3fn, __NV_E4M3)
ASTRA_FLOAT8(Float8_e5m2, __NV_E5M2)
#undef ASTRA_FLOAT8

// AMD's encodings: a type of its own, so that a switch over dtypes compiles; no contract has them.
#define ASTRA_BITS(Name, member)                                                       \
  struct alignas(1) Name {                                                             \
    uint8_t member;                                                                    \
    struct from_bits_t {};                                                             \
    static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }        \
    Name() = default;                                                                  \
    constexpr __host__ __device__ Name(uint8_t bits, from_bits_t) : member(bits) {}    \
  };
ASTRA_BITS(Float8_e4m3fnuz, x)
ASTRA_BITS(Float8_e5m2fnuz, x)
struct alignas(1) Float8_e8m0fnu {
  uint8_t x;
  struct from_bits_t {};
  static constexpr __host__ __device__ from_bits_t from_bits() { return {}; }
  Float8_e8m0fnu() = default;
  constexpr __host__ __device__ Float8_e8m0fnu(uint8_t bits, from_bits_t) : x(bits) {}
  __host__ __device__ operator float() const { return x == 255 ? __builtin_nanf("") : ldexpf(1.0f, x - 127); }
};
ASTRA_BITS(Float4_e2m1fn_x2, val_)
#undef ASTRA_BITS

// Two numbers of one small type give that type, rounded from float; with a float they give a float.
#define ASTRA_OPERATOR(T, op)                                                                        \
  inline __host__ __device__ T operator op(const T& a, const T& b) {                                 \
    return static_cast<float>(a) op static_cast<float>(b);                                           \
  }                                                                                                  \
  inline __host__ __device__ float operator op(T a, float b) { return static_cast<float>(a) op b; }  \
  inline __host__ __device__ float operator op(float a, T b) { return a op static_cast<float>(b); }  \
  inline __host__ __device__ double operator op(T a, double b) { return static_cast<double>(a) op b; } \
  inline __host__ __device__ double operator op(double a, T b) { return a op static_cast<double>(b); } \
  inline __host__ __device__ T operator op(T a, int b) { return a op T(static_cast<float>(b)); }     \
  inline __host__ __device__ T operator op(int a, T b) { return T(static_cast<float>(a)) op b; }     \
  inline __host__ __device__ T operator op(T a, int64_t b) { return a op T(static_cast<float>(b)); } \
  inline __host__ __device__ T operator op(int64_t a, T b) { return T(static_cast<float>(a)) op b; } \
  inline __host__ __device__ T& operator op##=(T& a, const T& b) { return a = a op b; }              \
  inline __host__ __device__ float& operator op##=(float& a, const T& b) {                           \
    return a = a op static_cast<float>(b);                                                           \
  }
#define ASTRA_OPERATORS(T)                                                                  \
  ASTRA_OPERATOR(T, +)                                                                      \
  ASTRA_OPERATOR(T, -)                                                                      \
  ASTRA_OPERATOR(T, *)                                                                      \
  ASTRA_OPERATOR(T, /)                                                                      \
  inline __host__ __device__ T operator-(const T& a) { return T(-static_cast<float>(a)); }  \
  inline std::ostream& operator<<(std::ostream& out, const T& value) { return out << static_cast<float>(value); }
ASTRA_OPERATORS(Half)
ASTRA_OPERATORS(BFloat16)
ASTRA_OPERATORS(Float8_e4m3fn)
ASTRA_OPERATORS(Float8_e5m2)
#undef ASTRA_OPERATORS
#undef ASTRA_OPERATOR

}  // namespace c10

namespace std {
template <>
class numeric_limits<c10::Half> : public numeric_limits<float> {
 public:
  static constexpr int digits = 11, digits10 = 3;
  static constexpr c10::Half bits(unsigned short x) { return c10::Half(x, c10::Half::from_bits()); }
  static constexpr c10::Half min() { return bits(0x0400); }
  static constexpr c10::Half lowest() { return bits(0xFBFF); }
  static constexpr c10::Half max() { return bits(0x7BFF); }
  static constexpr c10::Half epsilon() { return bits(0x1400); }
  static constexpr c10::Half infinity() { return bits(0x7C00); }
  static constexpr c10::Half quiet_NaN() { return bits(0x7E00); }
  static constexpr c10::Half denorm_min() { return bits(0x0001); }
};
template <>
class numeric_limits<c10::BFloat16> : public numeric_limits<float> {
 public:
  static constexpr int digits = 8, digits10 = 2;
  static constexpr c10::BFloat16 bits(unsigned short x) { return c10::BFloat16(x, c10::BFloat16::from_bits()); }
  static constexpr c10::BFloat16 min() { return bits(0x0080); }
  static constexpr c10::BFloat16 lowest() { return bits(0xFF7F); }
  static constexpr c10::BFloat16 max() { return bits(0x7F7F); }
  static constexpr c10::BFloat16 epsilon() { return bits(0x3C00); }
  static constexpr c10::BFloat16 infinity() { return bits(0x7F80); }
  static constexpr c10::BFloat16 quiet_NaN() { return bits(0x7FC0); }
  static constexpr c10::BFloat16 denorm_min() { return bits(0x0001); }
};
template <>
class numeric_limits<c10::Float8_e4m3fn> : public numeric_limits<float> {
 public:
  static constexpr int digits = 4, digits10 = 0;
  static constexpr bool has_infinity = false;
  static constexpr c10::Float8_e4m3fn bits(uint8_t x) {
    return c10::Float8_e4m3fn(x, c10::Float8_e4m3fn::from_bits());
  }
  static constexpr c10::Float8_e4m3fn min() { return bits(0x08); }
  static constexpr c10::Float8_e4m3fn lowest() { return bits(0xFE); }
  static constexpr c10::Float8_e4m3fn max() { return bits(0x7E); }
  static constexpr c10::Float8_e4m3fn quiet_NaN() { return bits(0x7F); }
  static constexpr c10::Float8_e4m3fn denorm_min() { return bits(0x01); }
};
template <>
class numeric_limits<c10::Float8_e5m2> : public numeric_limits<float> {
 public:
  static constexpr int digits = 3, digits10 = 0;
  static constexpr c10::Float8_e5m2 bits(uint8_t x) {
    return c10::Float8_e5m2(x, c10::Float8_e5m2::from_bits());
  }
  static constexpr c10::Float8_e5m2 min() { return bits(0x04); }
  static constexpr c10::Float8_e5m2 lowest() { return bits(0xFB); }
  static constexpr c10::Float8_e5m2 max() { return bits(0x7B); }
  static constexpr c10::Float8_e5m2 infinity() { return bits(0x7C); }
  static constexpr c10::Float8_e5m2 quiet_NaN() { return bits(0x7F); }
  static constexpr c10::Float8_e5m2 denorm_min() { return bits(0x01); }
};
}  // namespace std

namespace at {
using c10::BFloat16;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
using c10::Float8_e5m2;
using c10::Float8_e5m2fnuz;
using c10::Float8_e8m0fnu;
using c10::Half;
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <>
struct OpMathType<Float8_e4m3fn> {
  using type = float;
};
template <>
struct OpMathType<Float8_e5m2> {
  using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda = true>
using acc_type = std::conditional_t<std::is_integral_v<T>, int64_t, opmath_type<T>>;

// The limits of a type, for kernels; bounds are infinite where the type has infinity.
template <class T>
struct numeric_limits {
  using Std = std::numeric_limits<T>;
  static constexpr T kLowest = Std::lowest(), kMax = Std::max(), kInfinity = Std::infinity();
  static __host__ __device__ T lowest() { constexpr T limit = kLowest; return limit; }
  static __host__ __device__ T max() { constexpr T limit = kMax; return limit; }
  static __host__ __device__ T upper_bound() {
    constexpr T limit = Std::has_infinity ? kInfinity : kMax;
    return limit;
  }
  static __host__ __device__ T lower_bound() {
    if constexpr (Std::has_infinity) return static_cast<T>(-upper_bound());
    return lowest();
  }
};
}  // namespace at
