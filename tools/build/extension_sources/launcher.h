// What a generated launcher is made of: it hands the contract's arguments to the user's function.
// It uses no macro: those of the user's file have been undefined, and some may have had our names.
#pragma once
#include <algorithm>

#include "library.h"

namespace astra {

inline at::Tensor tensor(const char* name, const void* data, int code, std::vector<int64_t> sizes,
                         std::vector<int64_t> strides) {
  if (!data) return {};
  at::Tensor::Place place{const_cast<void*>(data), std::move(sizes), std::move(strides), type_of_code(code)};
  place.name = name;
  return at::Tensor(std::move(place));
}
inline at::Tensor tensor(const char* name, const void* data, int code, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides = at::Tensor::dense_strides(sizes);
  return tensor(name, data, code, std::move(sizes), std::move(strides));
}
inline Memory memory(const at::Tensor& tensor, bool taken = false) {
  return {tensor.data_ptr(), tensor.nbytes(), tensor.scalar_type(), tensor.sizes().vec(), taken};
}

inline std::vector<at::Tensor> operators(const char* name, const Values& values,
                                         const Registration* first = __start_astra_operators,
                                         const Registration* end = __stop_astra_operators) {
  Search search{name, &values, {}};
  for (const Registration* one = first; one != end; ++one) (*one)(search);
  if (!search.found) fail("", "the file registers no operator ", name, ", which [binding] in task.toml calls");
  return search.returned;
}

// Each returned tensor must lie where the contract's result lies.
inline void require_returned(const std::vector<at::Tensor>& returned, const std::vector<at::Tensor>& results) {
  Call& now = call();
  for (const at::Tensor& one : returned) {
    size_t place = 0;
    while (place < now.given.size() && now.given[place] != one.data_ptr()) ++place;
    const bool made = one.defined() && place < now.given.size();
    if (now.dry) now.which.push_back(made ? static_cast<int>(place) : -1);
    if (!now.dry) say("returns ", made ? static_cast<int>(place) : -1);
  }
  if (returned.size() < results.size())
    fail("", "the function returns ", returned.size(), " tensors, but [binding] in task.toml names ", results.size());
  for (size_t i = 0; i < results.size() && !now.dry; ++i)
    if (returned[i].data_ptr() != results[i].data_ptr() && results[i].numel() != 0)
      fail("", "result ", i, " that the function returns, ", returned[i].scalar_type(), returned[i].sizes(),
           ", is not the memory of the contract's, ", results[i].scalar_type(), results[i].sizes());
}

template <class Body>
cudaError_t called(Call& now, Body body) {
  current_call() = &now;
  checks() = 0;
  cudaError_t error = cudaSuccess;
  try {
    body(now);
  } catch (const std::exception& thrown) {
    say("checks ", checks());
    say("error: ", thrown.what());
    error = cudaErrorInvalidValue;
  }
  current_call() = nullptr;
  return error == cudaSuccess ? cudaGetLastError() : error;
}

// Runs the body of a launcher; what it throws is said, and becomes a CUDA error.
template <class Body>
cudaError_t launch(cudaStream_t stream, Body body) {
  Call dry, now;
  dry.stream = now.stream = stream;
  if (astra_dry) {
    dry.dry = now.known = true;
    astra_dry(1);
    const cudaError_t error = called(dry, body);
    astra_dry(0);
    if (error != cudaSuccess) return error;
    now.which = dry.which;
  }
  return called(now, body);
}

}  // namespace astra
