// What TORCH_CHECK and its relatives throw: c10::Error with the text of the check.
#pragma once
#include <cuda_runtime.h>

#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace c10 {

class Error : public std::exception {
 public:
  explicit Error(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const std::string& msg() const { return text_; }

 private:
  std::string text_;
};
using IndexError = Error;
using ValueError = Error;
using TypeError = Error;
using NotImplementedError = Error;

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream text;
  ((text << parts), ...);
  return text.str();
}

}  // namespace c10

namespace astra {

template <class... Parts>
[[noreturn]] inline void fail(const char* condition, const Parts&... parts) {
  std::string text = c10::str(parts...);
  throw c10::Error(text.empty() ? std::string("expected ") + condition : text);
}

// How many checks a call has got to: `new` sees by it whether other sizes meet one more.
inline int& checks() {
  static thread_local int count = 0;
  return count;
}
inline bool counted(bool failed) { return ++checks(), failed; }

inline void require(cudaError_t error, const char* call) {
  if (error != cudaSuccess) fail("", call, ": ", cudaGetErrorString(error));
}

}  // namespace astra

// A statement of its own: files write it with and without a semicolon.
#define TORCH_CHECK(condition, ...)                              \
  if (__builtin_expect(::astra::counted(!(condition)), 0)) {     \
    ::astra::fail(#condition, ##__VA_ARGS__);                    \
  }
#define TORCH_CHECK_WITH(kind, condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX TORCH_CHECK
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_TYPE TORCH_CHECK
#define TORCH_CHECK_LINALG TORCH_CHECK
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY TORCH_CHECK
#define STD_TORCH_CHECK TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_CHECK TORCH_CHECK
#define AT_ERROR(...) ::astra::fail("", ##__VA_ARGS__)
#define TORCH_WARN(...) ((void)0)
#define TORCH_WARN_ONCE(...) ((void)0)
#define TORCH_CHECK_OP_(op, a, b, ...) \
  TORCH_CHECK((a)op(b), "expected " #a " " #op " " #b ", got ", (a), " and ", (b), ##__VA_ARGS__)
#define TORCH_CHECK_EQ(a, b, ...) TORCH_CHECK_OP_(==, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_NE(a, b, ...) TORCH_CHECK_OP_(!=, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_LE(a, b, ...) TORCH_CHECK_OP_(<=, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_LT(a, b, ...) TORCH_CHECK_OP_(<, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_GE(a, b, ...) TORCH_CHECK_OP_(>=, a, b, ##__VA_ARGS__)
#define TORCH_CHECK_GT(a, b, ...) TORCH_CHECK_OP_(>, a, b, ##__VA_ARGS__)

#define C10_CUDA_CHECK(call) ::astra::require((call), #call)
#define C10_CUDA_CHECK_WARN(call) ((void)(call))
#define C10_CUDA_ERROR_HANDLED(call) (call)
#define C10_CUDA_IGNORE_ERROR(call) ((void)(call))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define STD_CUDA_CHECK C10_CUDA_CHECK
#define STD_CUDA_KERNEL_LAUNCH_CHECK C10_CUDA_KERNEL_LAUNCH_CHECK
#define TORCH_CUDA_CHECK C10_CUDA_CHECK

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define C10_UNUSED __attribute__((unused))
#define C10_RESTRICT __restrict__
#define C10_WARP_SIZE 32
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_EXPORT
#define C10_API
#define TORCH_API
#define TORCH_CUDA_CPP_API
#define TORCH_CUDA_CU_API
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type)                                        \
  for (index_type i = static_cast<index_type>(blockIdx.x) * blockDim.x + threadIdx.x; \
       i < (n); i += static_cast<index_type>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
