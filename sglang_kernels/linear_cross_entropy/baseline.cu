// Cross-entropy of a linear layer by parts of the vocabulary: tensor cores multiply all tokens by up to
// 8,192 rows of the weight and store the logits in fp32; then a block a token brings its running maximum
// and sum of exponentials up to date, and finds the target's logit where it is in this part. After the
// last part it writes the loss.

#include <algorithm>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kTile = 64;       // tokens, and columns, of a block's product
constexpr int kStep = 32;       // of the sums at a time
constexpr int kPadded = 40;     // elements from one row of a tile to the next: no bank conflicts
constexpr int kVector = 8;      // of bfloat16 in 16 bytes
constexpr int kThreads = 128;
constexpr int kReducing = 256;  // threads of a token
constexpr int kPart = 8192;     // columns of a part
constexpr int64_t kIgnored = -100;

using Tile = __nv_bfloat16[kTile][kPadded];

// Rows first to first + 63 of a matrix of `rows` rows, from column `at` on; zeros beyond its ends.
__device__ __forceinline__ void load_tile(Tile& tile, const __nv_bfloat16* matrix, int64_t first,
                                          int64_t rows, int at, int d) {
#pragma unroll
  for (int one = threadIdx.x; one < kTile * kStep / kVector; one += kThreads) {
    const int row = one / (kStep / kVector);
    const int column = one % (kStep / kVector) * kVector;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (first + row < rows && at + column < d) {
      bits = *reinterpret_cast<const uint4*>(matrix + (first + row) * d + at + column);
    }
    *reinterpret_cast<uint4*>(&tile[row][column]) = bits;
  }
}

__device__ __forceinline__ uint32_t pair_of(const Tile& tile, int row, int column) {
  return *reinterpret_cast<const uint32_t*>(&tile[row][column]);
}

__device__ __forceinline__ void multiply(float (&sums)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Logits [tokens, width] of the columns from `from` on. A warp takes 32 tokens by 32 columns.
__global__ void __launch_bounds__(kThreads) logits_kernel(float* logits,
                                                          const __nv_bfloat16* hidden,
                                                          const __nv_bfloat16* weight, int tokens,
                                                          int d, int vocab, int from, int width) {
  __shared__ __align__(16) Tile left, right;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int two = lane % 4 * 2;
  const int row = warp / 2 * 32;
  const int column = warp % 2 * 32;
  const int64_t first_token = static_cast<int64_t>(blockIdx.y) * kTile;
  const int first = blockIdx.x * kTile;
  float sums[2][4][4] = {};
  for (int at = 0; at < d; at += kStep) {
    __syncthreads();
    load_tile(left, hidden, first_token, tokens, at, d);
    load_tile(right, weight, from + first, vocab, at, d);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      uint32_t a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at_row = row + i * 16 + group;
        a[i][0] = pair_of(left, at_row, k + two);
        a[i][1] = pair_of(left, at_row + 8, k + two);
        a[i][2] = pair_of(left, at_row, k + 8 + two);
        a[i][3] = pair_of(left, at_row + 8, k + 8 + two);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        b[j][0] = pair_of(right, column + j * 8 + group, k + two);
        b[j][1] = pair_of(right, column + j * 8 + group, k + 8 + two);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(sums[i][j], a[i], b[j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int one = 0; one < 4; ++one) {
        const int64_t token = first_token + row + i * 16 + group + one / 2 * 8;
        const int at = first + column + j * 8 + two + one % 2;
        if (token < tokens && at < width) logits[token * width + at] = sums[i][j][one];
      }
    }
  }
}

__device__ __forceinline__ float block_max(float value, float* shared) {
#pragma unroll
  for (int by = kWarp / 2; by > 0; by /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, by));
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < kReducing / kWarp; ++i) value = fmaxf(value, shared[i]);
  return value;
}

__device__ __forceinline__ float block_sum(float value, float* shared) {
#pragma unroll
  for (int by = kWarp / 2; by > 0; by /= 2) value += __shfl_xor_sync(0xffffffffu, value, by);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < kReducing / kWarp; ++i) value += shared[i];
  return value;
}

// state: of each token the maximum, the sum of exponentials below it, and the target's logit.
__global__ void __launch_bounds__(kReducing) reduce_kernel(float* loss, float* state,
                                                           const float* logits,
                                                           const int64_t* target, int from,
                                                           int width, bool last) {
  __shared__ float shared[kReducing / kWarp];
  const int64_t token = blockIdx.x;
  const float* row = logits + token * width;
  float largest = row[0];
  for (int at = threadIdx.x; at < width; at += kReducing) largest = fmaxf(largest, row[at]);
  largest = block_max(largest, shared);
  if (from > 0) largest = fmaxf(largest, state[3 * token]);
  float sum = 0.0f;
  for (int at = threadIdx.x; at < width; at += kReducing) sum += __expf(row[at] - largest);
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  if (from > 0) sum += state[3 * token + 1] * __expf(state[3 * token] - largest);
  const int64_t wanted = target[token];
  const bool here = wanted >= from && wanted < from + width;
  float logit = here ? row[wanted - from] : 0.0f;
  if (from > 0 && !here) logit = state[3 * token + 2];
  if (last) {
    loss[token] = wanted == kIgnored ? 0.0f : largest + __logf(sum) - logit;
    return;
  }
  state[3 * token] = largest;
  state[3 * token + 1] = sum;
  state[3 * token + 2] = logit;
}

}  // namespace

extern "C" cudaError_t linear_cross_entropy(void* loss, const void* hidden, const void* weight,
                                            const void* target, void* scratch, int64_t tokens,
                                            int64_t d, int64_t vocab, int dtype,
                                            cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  float* logits = static_cast<float*>(scratch);
  float* state = logits + tokens * std::min<int64_t>(vocab, kPart);
  for (int64_t from = 0; from < vocab; from += kPart) {
    const int64_t width = std::min<int64_t>(kPart, vocab - from);
    const dim3 grid(static_cast<unsigned>((width + kTile - 1) / kTile),
                    static_cast<unsigned>((tokens + kTile - 1) / kTile));
    logits_kernel<<<grid, kThreads, 0, stream>>>(
        logits, static_cast<const __nv_bfloat16*>(hidden),
        static_cast<const __nv_bfloat16*>(weight), static_cast<int>(tokens), static_cast<int>(d),
        static_cast<int>(vocab), static_cast<int>(from), static_cast<int>(width));
    cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) return status;
    reduce_kernel<<<static_cast<unsigned>(tokens), kReducing, 0, stream>>>(
        static_cast<float*>(loss), state, logits, static_cast<const int64_t*>(target),
        static_cast<int>(from), static_cast<int>(width), from + kPart >= vocab);
    status = cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}
