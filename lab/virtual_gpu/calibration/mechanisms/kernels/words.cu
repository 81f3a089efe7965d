// Threads that take several words in a row, so that lanes lie apart and each request touches parts of many sectors,
// which the next ones touch again; and lanes that match each other.
// Every launcher: (out, in, a, b, stream); a x 4096 words in all, whatever a thread takes.
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

// kWords of a thread, one right behind the other.
template <int kWords>
__global__ void store_words(unsigned* out) {
  unsigned* mine = out + int64_t{self()} * kWords;
#pragma unroll
  for (int j = 0; j < kWords; ++j) mine[j] = threadIdx.x + 77 * j;
}
// A turn of a loop for each word.
template <int kWords>
__global__ void store_loop(unsigned* out) {
  unsigned* mine = out + int64_t{self()} * kWords;
#pragma unroll 1
  for (int j = 0; j < kWords; ++j) mine[j] = threadIdx.x;
}
template <typename T, int kItems>
__global__ void store_items(T* out) {
  T* mine = out + int64_t{self()} * kItems;
#pragma unroll
  for (int j = 0; j < kItems; ++j) mine[j] = static_cast<T>(threadIdx.x + j);
}
template <int kPacks>
__global__ void store_packs(uint4* out) {
  const unsigned word = threadIdx.x;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) out[int64_t{self()} * kPacks + j] = make_uint4(word, j, word, j);
}
// A load, its store, the next load; or all loads, then all stores.
__global__ void copy_in_turn(unsigned* out, const unsigned* in) {
  const int64_t i = int64_t{self()} * 4;
#pragma unroll
  for (int j = 0; j < 4; ++j) out[i + j] = in[i + j];
}
__global__ void copy_after(unsigned* __restrict__ out, const unsigned* __restrict__ in) {
  const int64_t i = int64_t{self()} * 4;
  unsigned x[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) x[j] = in[i + j];
#pragma unroll
  for (int j = 0; j < 4; ++j) out[i + j] = x[j];
}

// kItems stores behind each other of what kReads wide loads bring.
template <typename T, int kItems, int kReads>
__global__ void store_after_loads(T* out, const uint4* in) {
  const int64_t i = self();
  unsigned sum = 0;
#pragma unroll
  for (int k = 0; k < kReads; ++k) {
    const uint4 x = __ldg(in + int64_t{gridDim.x} * blockDim.x * k + i);
    sum += x.x ^ x.y ^ x.z ^ x.w;
  }
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    T item;
    memset(&item, 0, sizeof item);
    *reinterpret_cast<unsigned*>(&item) = sum + j;
    out[i * kItems + j] = item;
  }
}
// Whole lines from few SMs: b blocks.
__global__ void store_lines(uint4* out, int64_t packs) {
#pragma unroll 4
  for (int64_t i = self(); i < packs; i += gridDim.x * blockDim.x) out[i] = make_uint4(threadIdx.x, 1, 2, 3);
}

template <typename T, int kItems>
__global__ void load_items(unsigned* out, const T* in, unsigned never) {
  const T* mine = in + int64_t{self()} * kItems;
  unsigned sum = 0;
#pragma unroll
  for (int j = 0; j < kItems; ++j) sum += mine[j];
  if (sum == never) out[threadIdx.x] = sum;
}

template <int kDifferent>
__global__ void match_chain(unsigned* out, int times) {
  unsigned id = threadIdx.x % kDifferent, mask = 0;
  for (int k = 0; k < times; ++k) {
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(mask) : "r"(id));
    id += mask == 0;
  }
  out[self()] = mask;
}

}  // namespace

#define OUT (unsigned*)out
#define IN (const unsigned*)in
LAUNCHER(store_words_1) { LAUNCH((store_words<1>), a * 16, 256, OUT); }
LAUNCHER(store_words_2) { LAUNCH((store_words<2>), a * 8, 256, OUT); }
LAUNCHER(store_words_8) { LAUNCH((store_words<8>), a * 2, 256, OUT); }
LAUNCHER(store_words_16) { LAUNCH((store_words<16>), a, 256, OUT); }
LAUNCHER(store_loop_4) { LAUNCH((store_loop<4>), a * 4, 256, OUT); }
LAUNCHER(store_bytes_16) { LAUNCH((store_items<uint8_t, 16>), a * 4, 256, (uint8_t*)out); }
LAUNCHER(store_packs_1) { LAUNCH(store_packs<1>, a * 4, 256, (uint4*)out); }
LAUNCHER(store_packs_2) { LAUNCH(store_packs<2>, a * 2, 256, (uint4*)out); }
LAUNCHER(store_packs_4) { LAUNCH(store_packs<4>, a, 256, (uint4*)out); }
LAUNCHER(copy_words_in_turn) { LAUNCH(copy_in_turn, a * 4, 256, OUT, IN); }
LAUNCHER(copy_words_after) { LAUNCH(copy_after, a * 4, 256, OUT, IN); }
#define AFTER(T, items, reads)                                                                                \
  LAUNCH((store_after_loads<T, items, reads>), a * 64 / (items * sizeof(T)), 256, (T*)out, (const uint4*)in)
LAUNCHER(after_words_4_1) { AFTER(unsigned, 4, 1); }
LAUNCHER(after_words_4_4) { AFTER(unsigned, 4, 4); }
LAUNCHER(after_words_8_2) { AFTER(unsigned, 8, 2); }
LAUNCHER(after_words_8_8) { AFTER(unsigned, 8, 8); }
LAUNCHER(after_packs_2_2) { AFTER(uint4, 2, 2); }
LAUNCHER(after_packs_4_8) { AFTER(uint4, 4, 8); }
LAUNCHER(store_lines_of) { LAUNCH(store_lines, b, 1024, (uint4*)out, a * 1024); }
LAUNCHER(load_words_4) { LAUNCH((load_items<unsigned, 4>), a * 4, 256, OUT, IN, 0xfffffff1u); }
LAUNCHER(load_words_16) { LAUNCH((load_items<unsigned, 16>), a, 256, OUT, IN, 0xfffffff1u); }
LAUNCHER(load_bytes_16) { LAUNCH((load_items<uint8_t, 16>), a * 4, 256, OUT, (const uint8_t*)in, 0xfffffff1u); }
LAUNCHER(match_1) { LAUNCH(match_chain<1>, (a + 31) / 32, a < 32 ? a * 32 : 1024, OUT, b); }
LAUNCHER(match_4) { LAUNCH(match_chain<4>, (a + 31) / 32, a < 32 ? a * 32 : 1024, OUT, b); }
LAUNCHER(match_16) { LAUNCH(match_chain<16>, (a + 31) / 32, a < 32 ? a * 32 : 1024, OUT, b); }
LAUNCHER(match_32) { LAUNCH(match_chain<32>, (a + 31) / 32, a < 32 ? a * 32 : 1024, OUT, b); }
