// c10's small containers: ArrayRef, optional, string_view, irange.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "error.h"

namespace c10 {

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;
  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  ArrayRef(const std::vector<T>& from) : data_(from.data()), size_(from.size()) {}
  constexpr ArrayRef(const std::initializer_list<T>& from) : data_(from.begin()), size_(from.size()) {}
  template <size_t n>
  constexpr ArrayRef(const T (&from)[n]) : data_(from), size_(n) {}
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    TORCH_CHECK(i < size_, "index ", i, " of ", size_, " entries");
    return data_[i];
  }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  ArrayRef slice(size_t first, size_t count) const { return {data_ + first, count}; }
  ArrayRef slice(size_t first) const { return {data_ + first, size_ - first}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const { return *this == other; }
  friend bool operator==(ArrayRef a, ArrayRef b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& out, ArrayRef list) {
    out << '[';
    for (size_t i = 0; i < list.size_; ++i) out << (i ? ", " : "") << list.data_[i];
    return out << ']';
  }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;
using SymInt = int64_t;

template <class T>
using optional = std::optional<T>;
using std::in_place;
using std::make_optional;
using std::nullopt;
using std::nullopt_t;
using string_view = std::string_view;
template <class T>
using OptionalArrayRef = std::optional<ArrayRef<T>>;

template <class T>
class IntegerRange {
 public:
  struct Iterator {
    T value;
    T operator*() const { return value; }
    Iterator& operator++() { return ++value, *this; }
    bool operator!=(const Iterator& other) const { return value != other.value; }
  };
  IntegerRange(T first, T last) : first_(first), last_(last < first ? first : last) {}
  Iterator begin() const { return {first_}; }
  Iterator end() const { return {last_}; }

 private:
  T first_, last_;
};
template <class T>
IntegerRange<T> irange(T last) {
  return {T(0), last};
}
template <class A, class B>
IntegerRange<B> irange(A first, B last) {
  return {static_cast<B>(first), last};
}

template <class T>
constexpr T divup(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace c10

namespace at {
template <class A, class B>
constexpr __host__ __device__ auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}
template <class A, class B>
constexpr __host__ __device__ auto round_up(A a, B b) {
  return ceil_div(a, b) * b;
}
}  // namespace at
