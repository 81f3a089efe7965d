// c10::complex: two numbers that kernels compute with. No tensor of a contract has such elements.
#pragma once
#include <cuda_runtime.h>

namespace c10 {

template <class T>
struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T real_ = 0, imag_ = 0;

  constexpr complex() = default;
  __host__ __device__ constexpr complex(T real, T imag = 0) : real_(real), imag_(imag) {}
  template <class U>
  __host__ __device__ constexpr explicit complex(const complex<U>& z)
      : real_(static_cast<T>(z.real_)), imag_(static_cast<T>(z.imag_)) {}
  __host__ __device__ constexpr T real() const { return real_; }
  __host__ __device__ constexpr T imag() const { return imag_; }
  __host__ __device__ constexpr complex operator-() const { return {-real_, -imag_}; }
  __host__ __device__ constexpr complex& operator+=(complex z) { return *this = *this + z; }
  __host__ __device__ constexpr complex& operator-=(complex z) { return *this = *this - z; }
  __host__ __device__ constexpr complex& operator*=(complex z) { return *this = *this * z; }
  __host__ __device__ constexpr complex& operator/=(complex z) { return *this = *this / z; }
  __host__ __device__ friend constexpr complex operator+(complex a, complex b) {
    return {a.real_ + b.real_, a.imag_ + b.imag_};
  }
  __host__ __device__ friend constexpr complex operator-(complex a, complex b) {
    return {a.real_ - b.real_, a.imag_ - b.imag_};
  }
  __host__ __device__ friend constexpr complex operator*(complex a, complex b) {
    return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
  }
  __host__ __device__ friend constexpr complex operator/(complex a, complex b) {
    const T norm = b.real_ * b.real_ + b.imag_ * b.imag_;
    const complex up = a * complex(b.real_, -b.imag_);
    return {up.real_ / norm, up.imag_ / norm};
  }
  __host__ __device__ friend constexpr bool operator==(complex a, complex b) {
    return a.real_ == b.real_ && a.imag_ == b.imag_;
  }
  __host__ __device__ friend constexpr bool operator!=(complex a, complex b) { return !(a == b); }
};

}  // namespace c10
