// What a load of constant memory costs whose lanes want 1 to 32 different words: of a lone warp, where
// each load waits for the one before, and of 32 warps of one SM. A line of output for each count:
// words, stride in words, cycles a load of the lone warp, cycles of the SM for each load of many.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

enum { CHASES = 4, UNROLLED = 16, WORDS = 1024, MOST_WARPS = 32 };
__constant__ int itself[WORDS];  // itself[i] = i, which no compiler knows

struct Span { long long begin, end; };

template <int CHAINS>
__global__ void chase(Span* spans, int* out, int words, int stride, int turns) {
  int at[CHAINS];
  for (int c = 0; c < CHAINS; ++c) at[c] = (threadIdx.x + c) % words * stride;
  __syncthreads();
  const long long begin = clock64();
  for (int turn = 0; turn < turns; ++turn)
#pragma unroll
    for (int step = 0; step < UNROLLED; ++step)
#pragma unroll
      for (int c = 0; c < CHAINS; ++c) at[c] = itself[at[c]];
  int sum = 0;
  for (int c = 0; c < CHAINS; ++c) sum += at[c];
  out[threadIdx.x] = sum;
  const long long end = clock64() + (sum < 0);
  if (threadIdx.x % 32 == 0) spans[threadIdx.x / 32] = {begin, end};
}

static void checked(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

// Cycles from the first warp's begin to the last one's end.
template <int CHAINS>
static double cycles(int threads, int words, int stride, int turns, Span* spans, int* out) {
  for (int again = 0; again < 2; ++again) chase<CHAINS><<<1, threads>>>(spans, out, words, stride, turns);
  checked(cudaDeviceSynchronize());
  Span found[MOST_WARPS];
  int sums[32 * MOST_WARPS];
  checked(cudaMemcpy(found, spans, sizeof(Span) * threads / 32, cudaMemcpyDeviceToHost));
  checked(cudaMemcpy(sums, out, sizeof(int) * threads, cudaMemcpyDeviceToHost));
  long long begin = found[0].begin, end = found[0].end;
  for (int warp = 1; warp < threads / 32; ++warp) {
    begin = found[warp].begin < begin ? found[warp].begin : begin;
    end = found[warp].end > end ? found[warp].end : end;
  }
  for (int t = 0; t < threads; ++t) {
    int sum = 0;
    for (int c = 0; c < CHAINS; ++c) sum += (t + c) % words * stride;
    if (sums[t] != sum) fprintf(stderr, "thread %d has %d instead of %d\n", t, sums[t], sum), exit(1);
  }
  return double(end - begin);
}

int main(int count, char** given) {
  const int turns = count > 1 ? atoi(given[1]) : 64, warps = count > 2 ? atoi(given[2]) : MOST_WARPS;
  cudaDeviceProp device;
  checked(cudaGetDeviceProperties(&device, 0));
  printf("GPU: %s\n", device.name);
  int numbers[WORDS];
  for (int i = 0; i < WORDS; ++i) numbers[i] = i;
  checked(cudaMemcpyToSymbol(itself, numbers, sizeof numbers));
  Span* spans;
  int* out;
  checked(cudaMalloc(&spans, sizeof(Span) * MOST_WARPS));
  checked(cudaMalloc(&out, sizeof(int) * 32 * MOST_WARPS));
  const double loads = double(turns) * UNROLLED;
  for (int stride : {1, 32})
    for (int words : {1, 2, 4, 8, 16, 24, 32}) {
      const double lone = cycles<1>(32, words, stride, turns, spans, out) / loads;
      const double many = cycles<CHASES>(32 * warps, words, stride, turns, spans, out) / (loads * CHASES * warps);
      printf("%d %d %.3f %.3f\n", words, stride, lone, many);
    }
  checked(cudaFree(spans));
  checked(cudaFree(out));
  return 0;
}
