// fused_add_rmsnorm: one block per row, the row in registers, its weight loaded with it, one
// barrier. Few rows: as many threads as a row can use, for a short way from load to store. Many
// rows: few threads with many vectors each, so that several rows share a multiprocessor and one
// row's loads run under another's reduction. Results are stored as streaming; a call that fits L2
// is loaded past L1. Arguments fill one line of the constant cache: its miss is on the way of every
// block.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
constexpr int kWarp = 32;
constexpr int kMaxWarps = 32;
constexpr int kMaxThreads = kWarp * kMaxWarps;
constexpr int kFewThreads = 512;
constexpr int64_t kFewRows = 2 * 132;         // two a multiprocessor of an H200
constexpr int64_t kL2Bytes = 60 * 1000 * 1000;  // what an H200's L2 holds

template <typename T>
__device__ __forceinline__ float2 to_floats(uint32_t word);
template <>
__device__ __forceinline__ float2 to_floats<__half>(uint32_t word) {
  return __half22float2(*reinterpret_cast<const __half2*>(&word));
}
template <>
__device__ __forceinline__ float2 to_floats<__nv_bfloat16>(uint32_t word) {
  return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

template <typename T>
__device__ __forceinline__ uint32_t to_word(float low, float high);
template <>
__device__ __forceinline__ uint32_t to_word<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ __forceinline__ uint32_t to_word<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// The numbers of one 16-byte vector, as fp32.
template <typename T>
struct Numbers {
  static constexpr int kSize = kVectorBytes / static_cast<int>(sizeof(T));
  float item[kSize];

  __device__ __forceinline__ explicit Numbers(const uint4& bits) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSize == 4) {
        item[i] = __uint_as_float(words[i]);
      } else {
        const float2 pair = to_floats<T>(words[i]);
        item[2 * i] = pair.x;
        item[2 * i + 1] = pair.y;
      }
    }
  }

  __device__ __forceinline__ uint4 bits() const {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kSize == 4) {
        words[i] = __float_as_uint(item[i]);
      } else {
        words[i] = to_word<T>(item[2 * i], item[2 * i + 1]);
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

template <bool kPastL1>
__device__ __forceinline__ uint4 load(const uint4* address) {
  if constexpr (!kPastL1) return *address;
  uint4 bits;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(address));
  return bits;
}

// The sum over a block of `threads` threads, whole warps; every thread gets it after one barrier.
__device__ __forceinline__ float block_sum(float value, int threads) {
  __shared__ float4 partial[kMaxWarps / 4];
  float* sums = reinterpret_cast<float*>(partial);
  const int thread = static_cast<int>(threadIdx.x);
  const int warps = threads / kWarp;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (thread % kWarp == 0) sums[thread / kWarp] = value;
  if (thread < (-warps & 3)) sums[warps + thread] = 0.0f;  // fill the last four
  __syncthreads();
  float4 total = partial[0];
#pragma unroll
  for (int i = 1; i < kMaxWarps / 4; ++i) {
    if (i * 4 >= warps) break;
    const float4 next = partial[i];
    total.x += next.x;
    total.y += next.y;
    total.z += next.z;
    total.w += next.w;
  }
  return (total.x + total.y) + (total.z + total.w);
}

__device__ __forceinline__ float inverse_root(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

struct Rows {
  uint4* input;
  uint4* residual;
  const uint4* weight;
  int input_step;  // vectors from one row to the next
  int residual_step;
  float inverse_h;
  float eps;
  int vectors;  // in a row
  int threads;
};
static_assert(sizeof(Rows) == 48, "with the 16 bytes before it, one line of the constant cache");

constexpr int most_threads(int vectors) { return vectors <= 2 ? 1024 : vectors == 4 ? 768 : 512; }

// kWhole: threads times kVectors is the row, so that no vector needs a test.
template <typename T, int kVectors, bool kPastL1, bool kWhole>
__global__ void __launch_bounds__(most_threads(kVectors)) row_kernel(const Rows rows) {
  constexpr int kSize = Numbers<T>::kSize;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = blockIdx.x;
  uint4* const x = rows.input + row * rows.input_step + thread;
  uint4* const r = rows.residual + row * rows.residual_step + thread;
  const auto inside = [&](int i) { return kWhole || thread + i * rows.threads < rows.vectors; };

  uint4 x_bits[kVectors], r_bits[kVectors], w_bits[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    x_bits[i] = r_bits[i] = w_bits[i] = make_uint4(0, 0, 0, 0);
    if (inside(i)) {
      x_bits[i] = load<kPastL1>(x + i * rows.threads);
      r_bits[i] = load<kPastL1>(r + i * rows.threads);
    }
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (inside(i)) w_bits[i] = __ldg(rows.weight + thread + i * rows.threads);
  }

  float sums[kVectors][kSize];
  float even = 0.0f, odd = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const Numbers<T> a(x_bits[i]);
    Numbers<T> b(r_bits[i]);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      b.item[j] += a.item[j];
      sums[i][j] = b.item[j];
      float& squares = j % 2 ? odd : even;
      squares = fmaf(b.item[j], b.item[j], squares);
    }
    if (inside(i)) __stcs(r + i * rows.threads, b.bits());
  }

  const float squares = block_sum(even + odd, rows.threads);
  const float scale = inverse_root(fmaf(squares, rows.inverse_h, rows.eps));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    Numbers<T> result(w_bits[i]);
#pragma unroll
    for (int j = 0; j < kSize; ++j) result.item[j] *= sums[i][j] * scale;
    if (inside(i)) __stcs(x + i * rows.threads, result.bits());
  }
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void assign(float& target, float value) { target = value; }
__device__ __forceinline__ void assign(__half& target, float value) {
  target = __float2half_rn(value);
}
__device__ __forceinline__ void assign(__nv_bfloat16& target, float value) {
  target = __float2bfloat16_rn(value);
}

// Rows that 16-byte vectors do not fit, or too long for registers: the sum is formed twice.
template <typename T>
__global__ void __launch_bounds__(kMaxThreads)
    any_row_kernel(T* input, T* residual, const T* __restrict__ weight, int h,
                   int64_t input_stride, int64_t residual_stride, float inverse_h, float eps) {
  T* const x = input + blockIdx.x * input_stride;
  T* const r = residual + blockIdx.x * residual_stride;
  const int threads = static_cast<int>(blockDim.x);
  float squares = 0.0f;
#pragma unroll 4
  for (int i = threadIdx.x; i < h; i += threads) {
    const float sum = to_float(x[i]) + to_float(r[i]);
    squares = fmaf(sum, sum, squares);
  }
  const float scale = inverse_root(fmaf(block_sum(squares, threads), inverse_h, eps));
#pragma unroll 4
  for (int i = threadIdx.x; i < h; i += threads) {
    const float sum = to_float(x[i]) + to_float(r[i]);
    assign(r[i], sum);
    assign(x[i], sum * scale * to_float(weight[i]));
  }
}

int whole_warps(int threads) { return (threads + kWarp - 1) / kWarp * kWarp; }
int threads_for(int vectors, int each) { return whole_warps((vectors + each - 1) / each); }

template <typename T, int kVectors, bool kPastL1>
cudaError_t launch_rows(Rows rows, unsigned tokens, cudaStream_t stream) {
  rows.threads = threads_for(rows.vectors, kVectors);
  const auto kernel = rows.threads * kVectors == rows.vectors
                          ? row_kernel<T, kVectors, kPastL1, true>
                          : row_kernel<T, kVectors, kPastL1, false>;
  kernel<<<tokens, rows.threads, 0, stream>>>(rows);
  return cudaGetLastError();
}

// Vectors per thread where every row has a place at once.
template <typename T>
cudaError_t launch_few(const Rows& rows, unsigned tokens, cudaStream_t stream) {
  if (rows.vectors <= kFewThreads) return launch_rows<T, 1, false>(rows, tokens, stream);
  if (rows.vectors <= 2 * kFewThreads) return launch_rows<T, 2, false>(rows, tokens, stream);
  if (rows.vectors <= 4 * kFewThreads) return launch_rows<T, 4, false>(rows, tokens, stream);
  return launch_rows<T, 8, false>(rows, tokens, stream);
}

// Eight vectors per thread, or four where that leaves fewer lanes idle. A call past L2 is bound by
// memory alone: where a row is one vector to each thread of a large block, that keeps it busier.
template <typename T, bool kPastL1>
cudaError_t launch_many(const Rows& rows, unsigned tokens, cudaStream_t stream) {
  if (!kPastL1 && rows.vectors > kFewThreads && rows.vectors <= most_threads(1)) {
    return launch_rows<T, 1, kPastL1>(rows, tokens, stream);
  }
  const bool four = threads_for(rows.vectors, 4) * 4 < threads_for(rows.vectors, 8) * 8;
  if (four && threads_for(rows.vectors, 4) <= most_threads(4)) {
    return launch_rows<T, 4, kPastL1>(rows, tokens, stream);
  }
  return launch_rows<T, 8, kPastL1>(rows, tokens, stream);
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  constexpr int kSize = Numbers<T>::kSize;
  const unsigned blocks = static_cast<unsigned>(tokens);
  const float inverse_h = 1.0f / static_cast<float>(h);
  const int64_t steps = (input_stride | residual_stride) / kSize;
  const bool aligned = (h | input_stride | residual_stride) % kSize == 0;
  if (!aligned || h / kSize > 8 * most_threads(8) || steps > INT32_MAX) {
    const int threads = h < kMaxThreads ? whole_warps(static_cast<int>(h)) : kMaxThreads;
    any_row_kernel<T><<<blocks, threads, 0, stream>>>(
        static_cast<T*>(input), static_cast<T*>(residual), static_cast<const T*>(weight),
        static_cast<int>(h), input_stride, residual_stride, inverse_h, eps);
    return cudaGetLastError();
  }
  const Rows rows{static_cast<uint4*>(input),
                  static_cast<uint4*>(residual),
                  static_cast<const uint4*>(weight),
                  static_cast<int>(input_stride / kSize),
                  static_cast<int>(residual_stride / kSize),
                  inverse_h,
                  eps,
                  static_cast<int>(h / kSize),
                  0};
  if (tokens <= kFewRows) return launch_few<T>(rows, blocks, stream);
  const bool in_l2 = 4 * tokens * h * static_cast<int64_t>(sizeof(T)) <= kL2Bytes;
  return in_l2 ? launch_many<T, true>(rows, blocks, stream)
               : launch_many<T, false>(rows, blocks, stream);
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                           stream);
    case 1:
      return launch<__half>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                            stream);
    case 2:
      return launch<__nv_bfloat16>(input, residual, weight, tokens, h, input_stride,
                                   residual_stride, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
