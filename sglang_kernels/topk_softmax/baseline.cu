// SGLang's topk_softmax: the algorithm and launches of its compiled library of late 2025. Where the
// number of experts is a power of two up to 512, a row lies in the registers of up to 32 lanes, in
// vectors of 16 bytes: maximum and sum by butterflies, then a round of argmax for each expert that is
// chosen, after which the winner is cleared. Any other number takes two kernels of a block a row: the
// first leaves the softmax in the caller's workspace, in three passes; the second reads it again for
// every two experts, and thread 0 writes them and clears them there.
// Two things differ. Upstream's tanhf is tanh.approx under fast maths, off by up to 5e-4, times the
// cap: weights would be off by a hundredth. Here it is 1 - 2 / (1 + exp(2x)), which costs as much.
// Lanes beyond the last row are not named in shuffles.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;
constexpr float kCleared = -10000.0f;
constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ float logit_of(float value, float cap, const float* bias, int expert) {
  if (cap != 0.0f) value = cap * (1.0f - 2.0f / (1.0f + expf(2.0f * (value / cap))));
  if (bias != nullptr) value += bias[expert];
  return value;
}

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Vector {
  T item[kSize];
};

constexpr int least(int one, int other) { return one < other ? one : other; }

// How a row of kExperts lies in registers: vectors of a lane follow one another by all lanes' vectors.
template <typename T, int kExperts>
struct Layout {
  static constexpr int kVector = least(kVectorBytes / static_cast<int>(sizeof(T)), kExperts);
  static constexpr int kVectors =
      kExperts / (kVector * kWarp) > 1 ? kExperts / (kVector * kWarp) : 1;
  static constexpr int kEach = kVector * kVectors;
  static constexpr int kLanes = kExperts / kEach;
  static constexpr int kRowsOfWarp = kWarp / kLanes;
};

template <typename T, int kExperts>
__global__ void __launch_bounds__(kWarp* kWarps)
    row_in_registers(float* __restrict__ topk_weights, int* __restrict__ topk_ids,
                     const T* __restrict__ gating, const float* __restrict__ bias, int64_t tokens,
                     int topk, bool renormalize, float cap) {
  using L = Layout<T, kExperts>;
  const int lane = threadIdx.x % L::kLanes;
  const int64_t token = (static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y) * L::kRowsOfWarp +
                        threadIdx.x / L::kLanes;
  const unsigned lanes = __ballot_sync(kAll, token < tokens);
  if (token >= tokens) return;
  const int first = lane * L::kVector;
  const T* from = gating + token * kExperts + first;
  float held[L::kEach];
#pragma unroll
  for (int v = 0; v < L::kVectors; ++v) {
    const auto vector =
        *reinterpret_cast<const Vector<T, L::kVector>*>(from + v * L::kVector * L::kLanes);
#pragma unroll
    for (int i = 0; i < L::kVector; ++i) held[v * L::kVector + i] = to_float(vector.item[i]);
  }
  if (cap != 0.0f || bias != nullptr) {
#pragma unroll
    for (int i = 0; i < L::kEach; ++i) {
      const int expert = first + i / L::kVector * L::kVector * L::kLanes + i % L::kVector;
      held[i] = logit_of(held[i], cap, bias, expert);
    }
  }
  float largest = held[0];
#pragma unroll
  for (int i = 1; i < L::kEach; ++i) largest = fmaxf(largest, held[i]);
#pragma unroll
  for (int step = L::kLanes / 2; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, step, L::kLanes));
  }
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < L::kEach; ++i) {
    held[i] = expf(held[i] - largest);
    sum += held[i];
  }
#pragma unroll
  for (int step = L::kLanes / 2; step > 0; step /= 2) {
    sum += __shfl_xor_sync(lanes, sum, step, L::kLanes);
  }
  const float inverse = 1.0f / sum;
#pragma unroll
  for (int i = 0; i < L::kEach; ++i) held[i] *= inverse;
  float chosen = 0.0f;
  for (int round = 0; round < topk; ++round) {
    float best = held[0];
    int expert = first;
#pragma unroll
    for (int i = 1; i < L::kEach; ++i) {
      if (held[i] > best) {
        best = held[i];
        expert = first + i / L::kVector * L::kVector * L::kLanes + i % L::kVector;
      }
    }
#pragma unroll
    for (int step = L::kLanes / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(lanes, best, step, L::kLanes);
      const int other_expert = __shfl_xor_sync(lanes, expert, step, L::kLanes);
      if (other > best || (other == best && other_expert < expert)) {
        best = other;
        expert = other_expert;
      }
    }
    if (lane == 0) {
      topk_weights[token * topk + round] = best;
      topk_ids[token * topk + round] = expert;
      chosen += best;
    }
    if (round + 1 < topk && expert / L::kVector % L::kLanes == lane) {
      held[expert / (L::kVector * L::kLanes) * L::kVector + expert % L::kVector] = kCleared;
    }
  }
  if (renormalize && lane == 0) {
    const float scale = 1.0f / chosen;
    for (int round = 0; round < topk; ++round) topk_weights[token * topk + round] *= scale;
  }
}

// The threads' values as one, in all threads: by warps, then thread 0 over the warps.
template <typename Combine>
__device__ __forceinline__ float of_block(float value, float* shared, Combine combine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_down_sync(kAll, value, step));
  }
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
#pragma unroll
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = combine(value, shared[warp]);
    shared[kThreads / kWarp] = value;
  }
  __syncthreads();
  return shared[kThreads / kWarp];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    softmax_of_row(float* __restrict__ weights, const T* __restrict__ gating,
                   const float* __restrict__ bias, int experts, float cap) {
  __shared__ float of_maximum[kThreads / kWarp + 1], of_sum[kThreads / kWarp + 1];
  float* row = weights + static_cast<int64_t>(blockIdx.x) * experts;
  const T* from = gating + static_cast<int64_t>(blockIdx.x) * experts;
  float largest = -INFINITY;
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    const float logit = logit_of(to_float(from[expert]), cap, bias, expert);
    row[expert] = logit;
    largest = fmaxf(largest, logit);
  }
  largest = of_block(largest, of_maximum, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    sum += expf(row[expert] - largest);
  }
  const float inverse = 1.0f / of_block(sum, of_sum, [](float a, float b) { return a + b; });
  for (int expert = threadIdx.x; expert < experts; expert += kThreads) {
    row[expert] = expf(row[expert] - largest) * inverse;
  }
}

// The kCount (1 or 2) largest weights met so far, in descending order, with their experts. Of equal
// weights the one met first stays, so experts are met in ascending order.
template <int kCount>
struct Best {
  float weight[kCount];
  int expert[kCount];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      weight[i] = kCleared;
      expert[i] = 0;
    }
  }

  // `other` is of higher experts. By selection: as branches this took more than half of a call.
  __device__ __forceinline__ void merge(const Best& other) {
    const bool first = other.weight[0] > weight[0];
    if constexpr (kCount == 2) {
      const float mine = first ? weight[0] : weight[1];
      const int mine_expert = first ? expert[0] : expert[1];
      const float theirs = first ? other.weight[1] : other.weight[0];
      const int their_expert = first ? other.expert[1] : other.expert[0];
      const bool second = theirs > mine;
      weight[1] = second ? theirs : mine;
      expert[1] = second ? their_expert : mine_expert;
    }
    weight[0] = first ? other.weight[0] : weight[0];
    expert[0] = first ? other.expert[0] : expert[0];
  }
};

// A thread looks at neighbours, so that its experts lie between those of the threads beside it.
template <int kCount>
__global__ void __launch_bounds__(kThreads)
    topk_of_row(float* __restrict__ topk_weights, int* __restrict__ topk_ids, float* weights,
                int topk, int experts, bool renormalize) {
  __shared__ Best<kCount> of_warps[kThreads / kWarp];
  float* row = weights + static_cast<int64_t>(blockIdx.x) * experts;
  float* out = topk_weights + static_cast<int64_t>(blockIdx.x) * topk;
  int* ids = topk_ids + static_cast<int64_t>(blockIdx.x) * topk;
  const int each = (experts + kThreads - 1) / kThreads;
  const int begin = threadIdx.x * each, end = min(begin + each, experts);
  float chosen = 0.0f;
  for (int first = 0; first < topk; first += kCount) {
    Best<kCount> best;
    best.clear();
    for (int expert = begin; expert < end; ++expert) {
      Best<kCount> one;
      one.clear();
      one.weight[0] = row[expert];
      one.expert[0] = expert;
      best.merge(one);
    }
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      Best<kCount> other;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        other.weight[i] = __shfl_down_sync(kAll, best.weight[i], step);
        other.expert[i] = __shfl_down_sync(kAll, best.expert[i], step);
      }
      best.merge(other);
    }
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
      for (int warp = 1; warp < kThreads / kWarp; ++warp) best.merge(of_warps[warp]);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (first + i < topk) {
          out[first + i] = best.weight[i];
          ids[first + i] = best.expert[i];
          row[best.expert[i]] = kCleared;
          chosen += best.weight[i];
        }
      }
    }
    __syncthreads();
  }
  if (renormalize && threadIdx.x == 0) {
    const float scale = 1.0f / chosen;
    for (int place = 0; place < topk; ++place) out[place] *= scale;
  }
}

template <typename T>
struct Call {
  float* topk_weights;
  int* topk_ids;
  const T* gating;
  const float* bias;
  float* workspace;
  int64_t tokens;
  int topk, experts;
  bool renormalize;
  float cap;
  cudaStream_t stream;

  template <int kExperts>
  cudaError_t in_registers() const {
    constexpr int kRows = kWarps * Layout<T, kExperts>::kRowsOfWarp;
    const unsigned blocks = static_cast<unsigned>((tokens + kRows - 1) / kRows);
    row_in_registers<T, kExperts><<<blocks, dim3(kWarp, kWarps), 0, stream>>>(
        topk_weights, topk_ids, gating, bias, tokens, topk, renormalize, cap);
    return cudaGetLastError();
  }

  cudaError_t by_workspace() const {
    const unsigned blocks = static_cast<unsigned>(tokens);
    softmax_of_row<T><<<blocks, kThreads, 0, stream>>>(workspace, gating, bias, experts, cap);
    const auto kernel = topk == 1 ? topk_of_row<1> : topk_of_row<2>;
    kernel<<<blocks, kThreads, 0, stream>>>(topk_weights, topk_ids, workspace, topk, experts,
                                            renormalize);
    return cudaGetLastError();
  }

  cudaError_t launch() const {
    switch (experts) {
      case 4: return in_registers<4>();
      case 8: return in_registers<8>();
      case 16: return in_registers<16>();
      case 32: return in_registers<32>();
      case 64: return in_registers<64>();
      case 128: return in_registers<128>();
      case 256: return in_registers<256>();
      case 512: return in_registers<512>();
      default: return by_workspace();
    }
  }
};

template <typename T>
cudaError_t launch(void* topk_weights, void* topk_ids, const void* gating, const void* bias,
                   void* workspace, int64_t tokens, int64_t topk, int64_t experts,
                   bool renormalize, float cap, cudaStream_t stream) {
  const Call<T> call{static_cast<float*>(topk_weights), static_cast<int*>(topk_ids),
                     static_cast<const T*>(gating), static_cast<const float*>(bias),
                     static_cast<float*>(workspace), tokens, static_cast<int>(topk),
                     static_cast<int>(experts), renormalize, cap, stream};
  return call.launch();
}

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    const void* correction_bias, void* workspace, int64_t tokens,
                                    int64_t topk, int64_t experts, bool renormalize,
                                    float moe_softcapping, int dtype, cudaStream_t stream) {
  const auto with = [&](auto kernel) {
    return kernel(topk_weights, topk_ids, gating, correction_bias, workspace, tokens, topk, experts,
                  renormalize, moe_softcapping, stream);
  };
  switch (dtype) {
    case 0: return with(launch<float>);
    case 1: return with(launch<__half>);
    case 2: return with(launch<__nv_bfloat16>);
    default: return cudaErrorInvalidValue;
  }
}
