// All of what <torch/...>, <ATen/...>, <c10/...> and <pybind11/...> stand for here.
#pragma once
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "library.h"
#include "stable.h"

namespace at {
using namespace c10;
using c10::ArrayRef;
using c10::DeviceType;
using c10::MemoryFormat;
template <class T>
using optional = std::optional<T>;
using std::nullopt;
constexpr auto kCUDA = c10::kCUDA;
constexpr auto kCPU = c10::kCPU;
}  // namespace at

namespace torch {
using namespace at;
using Dtype = at::ScalarType;
using at::Tensor;
namespace cuda {
using namespace at::cuda;
}
namespace autograd {
using variable_list = std::vector<at::Tensor>;
}
}  // namespace torch

namespace c10 {
using at::Tensor;
}
