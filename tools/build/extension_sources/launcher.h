// What a generated launcher is made of: it hands the contract's arguments to the user's function.
#pragma once
#include <algorithm>

#include "library.h"

namespace astra {

inline at::Tensor tensor(const void* data, int code, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  if (!data) return {};
  return at::Tensor({const_cast<void*>(data), std::move(sizes), std::move(strides), type_of_code(code)});
}
inline at::Tensor tensor(const void* data, int code, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = at::Tensor::dense_strides(sizes);
  return tensor(data, code, std::move(sizes), std::move(strides));
}
inline Memory memory(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.nbytes(), tensor.scalar_type(), tensor.sizes().vec()};
}

inline std::vector<at::Tensor> operators(const char* name, const Values& values) {
  Search search{name, &values, {}};
  for (const Registration* one = __start_astra_operators; one != __stop_astra_operators; ++one) (*one)(search);
  TORCH_CHECK(search.found, "the file registers no operator ", name, ", which [binding] in task.toml calls");
  return search.returned;
}

// Each returned tensor must lie where the contract's result lies.
inline void require_returned(const std::vector<at::Tensor>& returned, const std::vector<at::Tensor>& results) {
  for (const at::Tensor& one : returned) {
    const std::vector<void*>& given = call().given;
    size_t which = 0;
    while (which < given.size() && given[which] != one.data_ptr()) ++which;
    say("returns ", one.defined() && which < given.size() ? static_cast<int>(which) : -1);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    TORCH_CHECK(i < returned.size(), "the function returns ", returned.size(), " tensors, and [binding] in task.toml"
                " names ", results.size());
    TORCH_CHECK(returned[i].data_ptr() == results[i].data_ptr() || results[i].numel() == 0,
                "result ", i, " that the function returns, ", returned[i].scalar_type(), returned[i].sizes(),
                ", is not the memory of the contract's, ", results[i].scalar_type(), results[i].sizes());
  }
}

// Runs the body of a launcher; what it throws is said, and becomes a CUDA error.
template <class Body>
cudaError_t launch(cudaStream_t stream, Body body) {
  Call now;
  now.stream = stream;
  current_call() = &now;
  cudaError_t error = cudaSuccess;
  try {
    body(now);
  } catch (const std::exception& thrown) {
    say("error: ", thrown.what());
    error = cudaErrorInvalidValue;
  }
  current_call() = nullptr;
  return error == cudaSuccess ? cudaGetLastError() : error;
}

}  // namespace astra
