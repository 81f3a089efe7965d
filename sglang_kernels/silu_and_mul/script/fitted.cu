// silu_and_mul: blocks in the order of memory, one 16-byte vector of gate and of up per thread.
// A call that fits the GPU at once takes small blocks, which spread over all multiprocessors; a
// larger one takes large blocks, which are fewer to schedule. Only a folded grid tests its tokens.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
constexpr int kWarp = 32;
constexpr int64_t kMaxGridY = 65535;
constexpr int kSmallBlock = 128;
constexpr int kLargeBlock = 512;
constexpr int64_t kResidentThreads = 132 * 2048;  // what an H200 holds at once
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ float silu(float value) {
  float power, reciprocal;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-kLog2E * value));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0f + power));
  return value * reciprocal;
}

__device__ __forceinline__ float2 silu_and_mul(float2 gate, float2 up) {
  return make_float2(silu(gate.x) * up.x, silu(gate.y) * up.y);
}

// One 32-bit word: a float, or a pair of 16-bit numbers.
template <typename T>
__device__ __forceinline__ uint32_t combine(uint32_t gate, uint32_t up);

template <>
__device__ __forceinline__ uint32_t combine<float>(uint32_t gate, uint32_t up) {
  return __float_as_uint(silu(__uint_as_float(gate)) * __uint_as_float(up));
}

template <>
__device__ __forceinline__ uint32_t combine<__half>(uint32_t gate, uint32_t up) {
  const __half2 pair = __float22half2_rn(
      silu_and_mul(__half22float2(*reinterpret_cast<const __half2*>(&gate)),
                   __half22float2(*reinterpret_cast<const __half2*>(&up))));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <>
__device__ __forceinline__ uint32_t combine<__nv_bfloat16>(uint32_t gate, uint32_t up) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(
      silu_and_mul(__bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&gate)),
                   __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&up))));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ uint4 combine(const uint4& gate, const uint4& up) {
  return make_uint4(combine<T>(gate.x, up.x), combine<T>(gate.y, up.y),
                    combine<T>(gate.z, up.z), combine<T>(gate.w, up.w));
}

template <typename T, bool kFolded>
__global__ void __launch_bounds__(kLargeBlock)
    silu_and_mul_kernel(uint4* __restrict__ out, const uint4* __restrict__ input, int tokens,
                        int vectors) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int token = static_cast<int>(blockIdx.y);
  if (kFolded) token += static_cast<int>(blockIdx.z * gridDim.y);
  if (column >= vectors || (kFolded && token >= tokens)) return;
  const uint4* gate = input + static_cast<int64_t>(token) * 2 * vectors + column;
  const uint4 x = __ldg(gate);
  const uint4 y = __ldg(gate + vectors);
  out[static_cast<int64_t>(token) * vectors + column] = combine<T>(x, y);
}

struct Shape {
  dim3 grid;
  unsigned threads;
};

// Pieces of equal size, in whole warps; tokens on grid.y, folded into grid.z where they exceed it.
Shape shape_of(int64_t tokens, int vectors) {
  const bool at_once = tokens * vectors <= kResidentThreads;
  const int max_threads = at_once ? kSmallBlock : kLargeBlock;
  const int pieces = (vectors + max_threads - 1) / max_threads;
  const int per_piece = (vectors + pieces - 1) / pieces;
  const int64_t folds = (tokens + kMaxGridY - 1) / kMaxGridY;
  const int64_t rows = (tokens + folds - 1) / folds;
  return {dim3(static_cast<unsigned>(pieces), static_cast<unsigned>(rows),
               static_cast<unsigned>(folds)),
          static_cast<unsigned>((per_piece + kWarp - 1) / kWarp * kWarp)};
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int vectors = static_cast<int>(d * static_cast<int64_t>(sizeof(T)) / kVectorBytes);
  const Shape shape = shape_of(tokens, vectors);
  const bool folded = shape.grid.z > 1;
  const auto kernel = folded ? silu_and_mul_kernel<T, true> : silu_and_mul_kernel<T, false>;
  kernel<<<shape.grid, shape.threads, 0, stream>>>(
      static_cast<uint4*>(out), static_cast<const uint4*>(input), static_cast<int>(tokens),
      vectors);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
