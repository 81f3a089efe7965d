// Where a launcher's tensors lie: the arguments of the contract, and the memory that a body asks for.
//
// torch::empty and its like give out the memory of a result, where the tensor is one that the function
// returns, else a piece of the contract's workspaces. Which are returned a call before has shown that
// launches nothing; where there is no recorder, a result is what first has its dtype and sizes.
#pragma once
#include <cstring>

#include "containers.h"
#include "scalar_types.h"

namespace astra {

// Of the recorder (plan/recorder/report.c); null elsewhere.
extern "C" __attribute__((weak)) void astra_say(const char* text);
extern "C" __attribute__((weak)) void astra_dry(int on);
template <class... Parts>
void say(const Parts&... parts) {
  if (astra_say) astra_say(c10::str(parts...).c_str());
}

struct Memory {
  void* data;
  size_t bytes;
  c10::ScalarType type;
  std::vector<int64_t> sizes;
  bool taken = false;
};


// The call of the launcher that is under way.
struct Call {
  cudaStream_t stream = nullptr;
  std::vector<Memory> results;
  std::vector<Memory> workspaces;
  std::vector<void*> given;  // to torch::empty and its like, in order
  bool dry = false;
  bool known = false;      // whether `which` is
  std::vector<int> which;  // of each result: its place in `given`; -1: none
};
inline Call*& current_call() {
  static thread_local Call* call = nullptr;
  return call;
}
inline Call& call() {
  if (!current_call()) fail("", "torch is called outside a launcher's call");
  return *current_call();
}

// A function asks for a pointer to other elements than a tensor has. The call that launches nothing
// goes on, so that `new` learns of all tensors at once which elements it asks for.
inline void mistyped(const char* name, c10::ScalarType wanted, c10::ScalarType found) {
  if (*name && call().dry) return say("expects ", name, " ", static_cast<int>(wanted));
  fail("", name, *name ? ": " : "", "expected scalar type ", wanted, " but found ", found);
}

inline int64_t product(c10::IntArrayRef sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

constexpr size_t kPiece = 256;  // workspaces are given out in pieces of this many bytes

inline void* piece_of(Memory& memory, size_t bytes) {
  const size_t whole = (bytes + kPiece - 1) / kPiece * kPiece;
  if (bytes > memory.bytes) return nullptr;
  void* data = memory.data;
  const size_t step = whole < memory.bytes ? whole : memory.bytes;
  memory.data = static_cast<char*>(memory.data) + step;
  memory.bytes -= step;
  return data;
}

inline void* result_memory(Call& now, c10::IntArrayRef sizes, c10::ScalarType type) {
  const int place = static_cast<int>(now.given.size());
  for (size_t i = 0; i < now.results.size(); ++i) {
    Memory& result = now.results[i];
    const bool fits = result.type == type && c10::IntArrayRef(result.sizes) == sizes && !result.taken;
    const bool meant = now.known ? i < now.which.size() && now.which[i] == place : fits;
    if (!meant) continue;
    TORCH_CHECK(fits, "result ", i, " is made as ", type, sizes, ", and task.toml says ", result.type,
                c10::IntArrayRef(result.sizes));
    result.taken = true;
    return result.data;
  }
  return nullptr;
}

inline void* allocate(c10::IntArrayRef sizes, c10::ScalarType type) {
  Call& now = call();
  const size_t bytes = product(sizes) * c10::elementSize(type);
  void* data = nullptr;
  if (now.dry) {  // addresses of nothing, far from each other
    data = reinterpret_cast<void*>((now.given.size() + 1) << 42);
  } else {
    data = result_memory(now, sizes, type);
    for (Memory& workspace : now.workspaces)
      if (!data && bytes) data = piece_of(workspace, bytes);
    say("allocates ", static_cast<int>(type), " ", sizes);
  }
  now.given.push_back(data);
  TORCH_CHECK(data || !bytes, "the function allocates ", bytes, " bytes, ", type, sizes,
              ", which no result and no workspace of task.toml provides: add to args"
              " { name = \"workspace\", dtype = \"uint8\", shape = [\"...\"], access = \"workspace\" }");
  return data;
}

// Fills memory with an element's bytes, where these are alike: that is what a memset can.
inline void fill(void* data, size_t bytes, const void* element, size_t item) {
  const unsigned char* each = static_cast<const unsigned char*>(element);
  for (size_t i = 1; i < item; ++i)
    TORCH_CHECK(each[i] == each[0], "a tensor is filled with a number that has different bytes: torch launches"
                " its own kernel for that, which cannot be optimized; fill it in your kernel");
  if (bytes) require(cudaMemsetAsync(data, each[0], bytes, call().stream), "cudaMemsetAsync");
}

template <class T>
void fill_as(c10::ScalarType type, void* data, int64_t count, T value) {
  switch (type) {
#define ASTRA_TYPE(number, ctype, name, item)                                  \
  case c10::ScalarType::name: {                                                \
    if constexpr (std::is_convertible_v<float, ctype>) {                       \
      const ctype element = static_cast<ctype>(value);                         \
      return fill(data, count * item, &element, item);                         \
    }                                                                          \
    break;                                                                     \
  }
    ASTRA_TYPES(ASTRA_TYPE)
#undef ASTRA_TYPE
    default:
      break;
  }
  fail("", "a tensor of this dtype cannot be filled: ", type);
}

}  // namespace astra
