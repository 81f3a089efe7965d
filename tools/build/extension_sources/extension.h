// All of what <torch/...>, <ATen/...>, <c10/...> and <pybind11/...> stand for here.
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "complex.h"
#include "dispatch.h"
#include "library.h"

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
namespace headeronly {
using c10::CppTypeToScalarType;
using c10::ScalarType;
}
namespace stable {
using at::Tensor;
}
namespace autograd {
using variable_list = std::vector<at::Tensor>;
}
}  // namespace torch

namespace c10 {
using at::Tensor;
}
