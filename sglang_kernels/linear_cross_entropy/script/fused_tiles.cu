// Cross-entropy of a linear layer without its logits in memory. A block multiplies up to 128 tokens by
// 256 rows of the weight on tensor cores, four stages of both under way by asynchronous copies, and
// keeps of its logits the maximum and the sum of exponentials of each token, two numbers in place of
// 256. The block that meets a token's target stores its logit. A warp a token then adds the parts up.
// Blocks of the same rows of the weight run side by side, so that they are read from memory once.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kColumns = 256;   // rows of the weight of a block
constexpr int kStep = 64;       // of the sums in a stage: 128 bytes a row
constexpr int kVector = 8;      // of bfloat16 in 16 bytes
constexpr int kVectors = kStep / kVector;
constexpr int kStages = 4;
constexpr int kFinishing = 4;   // tokens of a block of the last launch
constexpr int kIgnored = -100;
constexpr float kLowest = -3.0e38f;

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// 16 bytes to shared memory, zeros where `bytes` is 0.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
      : "r"(from) : "memory");
}

__device__ __forceinline__ void multiply(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Byte of 16 bytes of a tile: rows of 128 bytes, their vectors exchanged so that eight rows of one
// column of vectors lie in different banks.
__device__ __forceinline__ int place(int row, int vector) {
  return row * kStep * 2 + (vector ^ (row % 8)) * 16;
}

// Starts copies of kRows rows of a matrix, from `first` on; rows and columns beyond its ends are zero.
template <int kRows>
__device__ __forceinline__ void load_rows(uint32_t to, const __nv_bfloat16* matrix, int64_t first,
                                          int64_t rows, int at, int d) {
#pragma unroll
  for (int one = threadIdx.x; one < kRows * kVectors; one += kThreads) {
    const int row = one / kVectors;
    const int vector = one % kVectors;
    const bool within = first + row < rows && at + vector * kVector < d;
    const int64_t from = within ? (first + row) * d + at + vector * kVector : 0;
    copy_async(to + place(row, vector), matrix + from, within ? 16 : 0);
  }
}

// kRows: tokens of a block; kDown: warps that share a column of them.
template <int kRows, int kDown>
__global__ void __launch_bounds__(kThreads, 1) tiles_kernel(
    float2* parts, float* wanted_logits, const __nv_bfloat16* hidden, const __nv_bfloat16* weight,
    const int64_t* target, int tokens, int d, int vocab) {
  constexpr int kAcross = kWarps / kDown;
  constexpr int kHigh = kRows / kDown / 16;           // products of a warp, downwards
  constexpr int kWide = kColumns / kAcross / 8;       // and across
  constexpr int kStage = (kRows + kColumns) * kStep * 2;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int top = warp / kAcross * kHigh * 16;
  const int left = warp % kAcross * kWide * 8;
  const int64_t first_token = static_cast<int64_t>(blockIdx.x) * kRows;
  const int64_t first_column = static_cast<int64_t>(blockIdx.y) * kColumns;
  const int steps = (d + kStep - 1) / kStep;

  float sums[kHigh][kWide][4] = {};
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < steps) {
      const uint32_t to = base + stage * kStage;
      load_rows<kRows>(to, hidden, first_token, tokens, stage * kStep, d);
      load_rows<kColumns>(to + kRows * kStep * 2, weight, first_column, vocab, stage * kStep, d);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int step = 0; step < steps; ++step) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    const int next = step + kStages - 1;
    if (next < steps) {
      const uint32_t to = base + next % kStages * kStage;
      load_rows<kRows>(to, hidden, first_token, tokens, next * kStep, d);
      load_rows<kColumns>(to + kRows * kStep * 2, weight, first_column, vocab, next * kStep, d);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    const uint32_t rows = base + step % kStages * kStage;
    const uint32_t columns = rows + kRows * kStep * 2;
#pragma unroll
    for (int k = 0; k < kVectors; k += 2) {
      uint32_t a[kHigh][4];
#pragma unroll
      for (int i = 0; i < kHigh; ++i) {
        load_matrices(a[i], rows + place(top + i * 16 + lane % 16, k + lane / 16));
      }
#pragma unroll
      for (int j = 0; j < kWide; j += 2) {
        uint32_t b[4];
        const int row = left + j * 8 + lane % 8 + lane / 16 * 8;
        load_matrices(b, columns + place(row, k + lane / 8 % 2));
#pragma unroll
        for (int i = 0; i < kHigh; ++i) {
          multiply(sums[i][j], a[i], b[0], b[1]);
          multiply(sums[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();

  // Of each token the maximum and the sum of a warp's columns.
  float2* of_warps = reinterpret_cast<float2*>(shared);  // [kAcross][kRows]
#pragma unroll
  for (int i = 0; i < kHigh; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = top + i * 16 + half * 8 + lane / 4;
      const int64_t token = first_token + row;
      const int64_t column = first_column + left + lane % 4 * 2;
      const int64_t wanted = token < tokens ? target[token] : kIgnored;
      float largest = kLowest;
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
#pragma unroll
        for (int one = 0; one < 2; ++one) {
          const float logit = sums[i][j][half * 2 + one];
          if (column + j * 8 + one < vocab) largest = fmaxf(largest, logit);
          if (column + j * 8 + one == wanted) wanted_logits[token] = logit;
        }
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
#pragma unroll
        for (int one = 0; one < 2; ++one) {
          if (column + j * 8 + one < vocab) sum += __expf(sums[i][j][half * 2 + one] - largest);
        }
      }
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (lane % 4 == 0) of_warps[warp % kAcross * kRows + row] = make_float2(largest, sum);
    }
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row >= kRows || first_token + row >= tokens) return;
  float2 all = of_warps[row];
#pragma unroll
  for (int i = 1; i < kAcross; ++i) {
    const float2 one = of_warps[i * kRows + row];
    const float largest = fmaxf(all.x, one.x);
    all = make_float2(largest, all.y * __expf(all.x - largest) + one.y * __expf(one.x - largest));
  }
  parts[(first_token + row) * gridDim.y + blockIdx.y] = all;
}

// A warp a token: maximum and sum of all parts, and the loss.
__global__ void __launch_bounds__(kFinishing* kWarp) finish_kernel(float* loss, const float2* parts,
                                                                   const float* wanted_logits,
                                                                   const int64_t* target,
                                                                   int tokens, int count) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kFinishing + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const float2* row = parts + token * count;
  float largest = kLowest;
  float sum = 0.0f;
  for (int at = threadIdx.x % kWarp; at < count; at += kWarp) {
    const float2 part = row[at];
    const float higher = fmaxf(largest, part.x);
    sum = sum * __expf(largest - higher) + part.y * __expf(part.x - higher);
    largest = higher;
  }
#pragma unroll
  for (int by = kWarp / 2; by > 0; by /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, largest, by);
    const float of_other = __shfl_xor_sync(0xffffffffu, sum, by);
    const float higher = fmaxf(largest, other);
    sum = sum * __expf(largest - higher) + of_other * __expf(other - higher);
    largest = higher;
  }
  if (threadIdx.x % kWarp != 0) return;
  const bool ignored = target[token] == kIgnored;
  loss[token] = ignored ? 0.0f : largest + __logf(sum) - wanted_logits[token];
}

template <int kRows, int kDown>
cudaError_t launch(float* loss, const __nv_bfloat16* hidden, const __nv_bfloat16* weight,
                   const int64_t* target, float* scratch, int tokens, int d, int vocab,
                   cudaStream_t stream) {
  constexpr int kBytes = kStages * (kRows + kColumns) * kStep * 2;
  const int count = (vocab + kColumns - 1) / kColumns;
  float2* parts = reinterpret_cast<float2*>(scratch);
  float* logits = scratch + 2 * static_cast<int64_t>(tokens) * count;
  cudaError_t status = cudaFuncSetAttribute(tiles_kernel<kRows, kDown>,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  tiles_kernel<kRows, kDown><<<dim3((tokens + kRows - 1) / kRows, count), kThreads, kBytes, stream>>>(
      parts, logits, hidden, weight, target, tokens, d, vocab);
  status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  finish_kernel<<<(tokens + kFinishing - 1) / kFinishing, kFinishing * kWarp, 0, stream>>>(
      loss, parts, logits, target, tokens, count);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t linear_cross_entropy(void* loss, const void* hidden, const void* weight,
                                            const void* target, void* scratch, int64_t tokens,
                                            int64_t d, int64_t vocab, int dtype,
                                            cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  // Few tokens: the weight's bytes decide, and products of rows that are not there would cost.
  const auto chosen = tokens > 64 ? launch<128, 2> : tokens > 16 ? launch<64, 1> : launch<16, 1>;
  return chosen(static_cast<float*>(loss), static_cast<const __nv_bfloat16*>(hidden),
                static_cast<const __nv_bfloat16*>(weight), static_cast<const int64_t*>(target),
                static_cast<float*>(scratch), static_cast<int>(tokens), static_cast<int>(d),
                static_cast<int>(vocab), stream);
}
