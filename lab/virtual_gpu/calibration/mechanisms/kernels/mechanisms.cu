// One mechanism of a GPU each: what the estimate's constants beyond silu_and_mul and rmsnorm are fitted to.
// Every launcher: (out, in, a, b, stream); a x 256 threads mostly, b = how often.
#include <cstdint>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)
#define LAUNCH(kernel, blocks, threads, ...)             \
  do {                                                   \
    kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__); \
    return cudaGetLastError();                           \
  } while (0)

namespace {

__device__ int self() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ unsigned mixed(unsigned x) { return (x ^ x >> 15) * 2246822519u; }

// Atomics: b of each thread; kPlaces addresses in all, 0 = each thread its own.
template <int kPlaces>
__global__ void adds(unsigned* out, const unsigned* in, int times) {
  const unsigned word = in[self()];
  for (int k = 0; k < times; ++k) {
    const unsigned at = kPlaces ? mixed(word + k) % kPlaces : self();
    atomicAdd(out + at, word);
  }
}
__global__ void float_adds(float* out, const float* in, int times) {
  float x = in[self()];
  for (int k = 0; k < times; ++k) atomicAdd(out + (threadIdx.x & 31), x), x *= 0.5f;
}
template <int kPlaces>
__global__ void shared_adds(unsigned* out, const unsigned* in, int times) {
  __shared__ unsigned count[kPlaces];
  for (int i = threadIdx.x; i < kPlaces; i += 256) count[i] = 0;
  __syncthreads();
  const unsigned word = in[self()];
  for (int k = 0; k < times; ++k) atomicAdd(count + mixed(word + k) % kPlaces, 1u);
  __syncthreads();
  out[self()] = count[threadIdx.x % kPlaces];
}

// A block reads its own 4 KiB b times: from L1 after the first.
__global__ void again_from_l1(float* out, const float* in, int times) {
  float sum = 0;
  for (int k = 0; k < times; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += in[blockIdx.x * 1024 + (j * 256 + threadIdx.x + 32 * k) % 1024];
  out[self()] = sum;
}
// All blocks read the same b x 4 KiB: from L2.
__global__ void same_from_l2(float* out, const float4* in, int times) {
  float sum = 0;
#pragma unroll 2
  for (int k = 0; k < times; ++k) {
    const float4 x = in[((k + blockIdx.x) % times) * 256 + threadIdx.x];
    sum += x.x + x.y + x.z + x.w;
  }
  out[self()] = sum;
}
// All lanes want one word.
__global__ void broadcast(float* out, const float* in, int times) {
  float sum = 0;
#pragma unroll 8
  for (int k = 0; k < times; ++k) sum += in[k] * (threadIdx.x + k);
  out[self()] = sum;
}
// Each lane reads its own run of b words: 32 sectors a request, each sector eight times.
__global__ void run_of_words(float* out, const float* in, int times) {
  float sum = 0;
  for (int k = 0; k < times; ++k) sum += in[int64_t{self()} * times + k];
  out[self()] = sum;
}
// Random words of the whole input, b independent ones a thread.
__global__ void random_words(float* out, const float* in, unsigned mask, int times) {
  float sum = 0;
#pragma unroll 4
  for (int k = 0; k < times; ++k) sum += in[mixed(self() * 8191u + k) & mask];
  out[self()] = sum;
}
__global__ void sparse_stores(float* out, const float* in) { out[int64_t{self()} * 8] = in[self()]; }
__global__ void random_stores(float* out, const float* in, unsigned mask) { out[mixed(self()) & mask] = in[self()]; }

// kLoads loads of one thread at once, then their sum.
template <int kLoads>
__global__ void in_flight(float* out, const float* in, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    float x[kLoads];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) x[k] = in[((r * kLoads + k) * gridDim.x + blockIdx.x) * int64_t{256} + threadIdx.x];
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum = sum * 0.5f + x[k];
  }
  out[self()] = sum;
}
// The address of each load hangs on the one before.
__global__ void hops(unsigned* out, const unsigned* in, unsigned mask, int times) {
  unsigned at = mixed(self());
  for (int k = 0; k < times; ++k) at = mixed(in[at & mask] + k);
  out[self()] = at;
}

__global__ void meets(float* out, const float* in, int times) {
  __shared__ float kept[256];
  float x = in[self()];
  for (int k = 0; k < times; ++k) {
    kept[threadIdx.x] = x;
    __syncthreads();
    x += kept[threadIdx.x ^ 33];
    __syncthreads();
  }
  out[self()] = x;
}
__global__ void trades(float* out, const float* in, int times) {
  float x = in[self()];
#pragma unroll 4
  for (int k = 0; k < times; ++k) x += __shfl_xor_sync(~0u, x, (k & 15) + 1);
  out[self()] = x;
}
template <int kStep>
__global__ void banks(float* out, const float* in, int times) {
  __shared__ float4 kept[512];
  kept[threadIdx.x] = kept[threadIdx.x + 256] = reinterpret_cast<const float4*>(in)[self()];
  __syncthreads();
  float sum = 0;
#pragma unroll 8
  for (int k = 0; k < times; ++k) sum += kept[(threadIdx.x * kStep + k) & 511].x;
  out[self()] = sum;
}
__global__ void wide_shared(float* out, const float* in, int times) {
  __shared__ float4 kept[512];
  kept[threadIdx.x] = kept[threadIdx.x + 256] = reinterpret_cast<const float4*>(in)[self()];
  __syncthreads();
  float sum = 0;
#pragma unroll 8
  for (int k = 0; k < times; ++k) {
    const float4 x = kept[(threadIdx.x + k) & 511];
    sum += x.x * x.y + x.z * x.w;
  }
  out[self()] = sum;
}
__global__ void quotients(unsigned* out, const unsigned* in, unsigned by, int times) {
  unsigned x = in[self()];
  for (int k = 0; k < times; ++k) x = x / (by + k) + 2654435761u;
  out[self()] = x;
}
__global__ void doubles(double* out, const float* in, int times) {
  double x = in[self()], y = 1.0;
#pragma unroll 4
  for (int k = 0; k < times; ++k) y = y * x + 0.5;
  out[self()] = y;
}
__global__ void exact_divisions(float* out, const float* in, int times) {
  float x = in[self()] + 1.0f;
  for (int k = 0; k < times; ++k) x = 1.5f / x + 0.25f;
  out[self()] = x;
}
__global__ void exact_exponentials(float* out, const float* in, int times) {
  float x = in[self()];
  for (int k = 0; k < times; ++k) x = expf(-x);
  out[self()] = x;
}
__global__ void whole_numbers(unsigned* out, const unsigned* in, int times) {
  unsigned x = in[self()], y = x + 1, z = x + 2, w = x + 3;
#pragma unroll 4
  for (int k = 0; k < times; ++k) {
    x = (x ^ y) + (z >> 3);
    y = y * 5u + w;
    z = (z & x) | (w << 1);
    w = min(w, y) - z;
  }
  out[self()] = x ^ y ^ z ^ w;
}
// The kOf first lanes of each warp go on alone.
template <int kOf>
__global__ void some_lanes(float* out, const float* in, int times) {
  float x = in[self()];
  if (threadIdx.x % 32 < kOf)
    for (int k = 0; k < times; ++k) x = x * 0.75f + 0.5f;
  else
    for (int k = 0; k < times; ++k) x = x * 0.25f - 0.5f;
  out[self()] = x;
}
// How long a lane goes on is its word's.
__global__ void uneven(float* out, const unsigned* in, int times) {
  float x = 0.5f;
  const int mine = in[self()] % times;
  for (int k = 0; k < mine; ++k) x = x * 0.75f + 0.5f;
  out[self()] = x;
}
// Triangles of 1, 2, ... b rows of 1 KiB: blocks differ in length.
__global__ void triangle(float* out, const float* in, int times) {
  float sum = 0;
  for (int k = 0; k <= blockIdx.x % times; ++k) sum += in[(blockIdx.x * 7 + k) % gridDim.x * 256 + threadIdx.x];
  out[self()] = sum;
}
// Rows of b floats: read, summed, read again, written.
template <int kThreads>
__global__ void twice_over(float* out, const float* in, int columns) {
  __shared__ float sums[kThreads / 32];
  const float* row = in + int64_t{blockIdx.x} * columns;
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += kThreads) sum += row[i];
#pragma unroll
  for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += sums[w];
  for (int i = threadIdx.x; i < columns; i += kThreads) out[int64_t{blockIdx.x} * columns + i] = row[i] - sum;
}
__global__ void once_over(float4* out, const float4* in, int vectors) {
  __shared__ float sums[32];
  const int64_t at = int64_t{blockIdx.x} * vectors + threadIdx.x;
  float4 x = in[at];
  float sum = x.x + x.y + x.z + x.w;
#pragma unroll
  for (int m = 16; m; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += sums[w];
  out[at] = make_float4(x.x - sum, x.y - sum, x.z - sum, x.w - sum);
}
__global__ void fill(float* out) { out[self()] = 1.0f; }
__global__ void read_only(float* out, const float4* in) {
  const float4 x = in[self()];
  if (x.x + x.y + x.z + x.w == -1.0f) out[0] = 1.0f;
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define WORDS (unsigned*)out, (const unsigned*)in
#define MASK ((unsigned)(a * 256 - 1))
LAUNCHER(adds_own) { LAUNCH(adds<0>, a, 256, WORDS, b); }
LAUNCHER(adds_1024) { LAUNCH(adds<1024>, a, 256, WORDS, b); }
LAUNCHER(adds_8) { LAUNCH(adds<8>, a, 256, WORDS, b); }
LAUNCHER(adds_float) { LAUNCH(float_adds, a, 256, FLOATS, b); }
LAUNCHER(shared_adds_1024) { LAUNCH(shared_adds<1024>, a, 256, WORDS, b); }
LAUNCHER(shared_adds_16) { LAUNCH(shared_adds<16>, a, 256, WORDS, b); }
LAUNCHER(reread_l1) { LAUNCH(again_from_l1, a, 256, FLOATS, b); }
LAUNCHER(reread_l2) { LAUNCH(same_from_l2, a, 256, (float*)out, (const float4*)in, b); }
LAUNCHER(one_word) { LAUNCH(broadcast, a, 256, FLOATS, b); }
LAUNCHER(runs) { LAUNCH(run_of_words, a, 256, FLOATS, b); }
LAUNCHER(random_reads) { LAUNCH(random_words, a, 256, FLOATS, MASK, b); }
LAUNCHER(stores_sparse) { LAUNCH(sparse_stores, a, 256, FLOATS); }
LAUNCHER(stores_random) { LAUNCH(random_stores, a, 256, FLOATS, MASK); }
LAUNCHER(flight_1) { LAUNCH(in_flight<1>, a, 256, FLOATS, b); }
LAUNCHER(flight_2) { LAUNCH(in_flight<2>, a, 256, FLOATS, b / 2); }
LAUNCHER(flight_8) { LAUNCH(in_flight<8>, a, 256, FLOATS, b / 8); }
LAUNCHER(hopping) { LAUNCH(hops, a, 64, WORDS, MASK, b); }
LAUNCHER(meeting) { LAUNCH(meets, a, 256, FLOATS, b); }
LAUNCHER(trading) { LAUNCH(trades, a, 256, FLOATS, b); }
LAUNCHER(banks_1) { LAUNCH(banks<1>, a, 256, FLOATS, b); }
LAUNCHER(banks_4) { LAUNCH(banks<4>, a, 256, FLOATS, b); }
LAUNCHER(shared_fours) { LAUNCH(wide_shared, a, 256, FLOATS, b); }
LAUNCHER(dividing_integers) { LAUNCH(quotients, a, 256, WORDS, 77, b); }
LAUNCHER(in_doubles) { LAUNCH(doubles, a, 256, (double*)out, (const float*)in, b); }
LAUNCHER(dividing) { LAUNCH(exact_divisions, a, 256, FLOATS, b); }
LAUNCHER(exponentials) { LAUNCH(exact_exponentials, a, 256, FLOATS, b); }
LAUNCHER(integers) { LAUNCH(whole_numbers, a, 256, WORDS, b); }
LAUNCHER(lanes_16) { LAUNCH(some_lanes<16>, a, 256, FLOATS, b); }
LAUNCHER(lanes_32) { LAUNCH(some_lanes<32>, a, 256, FLOATS, b); }
LAUNCHER(lanes_uneven) { LAUNCH(uneven, a, 256, (float*)out, (const unsigned*)in, b); }
LAUNCHER(blocks_uneven) { LAUNCH(triangle, a, 256, FLOATS, b); }
LAUNCHER(rows_twice_64) { LAUNCH(twice_over<64>, a, 64, FLOATS, b); }
LAUNCHER(rows_twice_512) { LAUNCH(twice_over<512>, a, 512, FLOATS, b); }
LAUNCHER(rows_once) { LAUNCH(once_over, a, b / 4, (float4*)out, (const float4*)in, b / 4); }
LAUNCHER(only_writes) { LAUNCH(fill, a, 256, (float*)out); }
LAUNCHER(only_reads) { LAUNCH(read_only, a, 256, (float*)out, (const float4*)in); }
