// Kernels that treat each element alone: copies of all widths, heavy arithmetic, latency, occupancy.
#include "common.cuh"

namespace {

template <typename T>
__global__ void copy(T* out, const T* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}

template <int kEach>
__global__ void scale_each(float* out, const float* in, int n) {
  const int first = blockIdx.x * 256 * kEach + threadIdx.x;
  float x[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) x[k] = first + k * 256 < n ? in[first + k * 256] : 0.0f;
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    if (first + k * 256 < n) out[first + k * 256] = 1.5f * x[k] + 0.25f;
}

__global__ void axpy(float* y, const float* x, const float* z, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.5f * x[i] + z[i];
}

__global__ void axpy_loop(float* y, const float* x, const float* z, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.5f * x[i] + z[i];
}

// Element i of the result comes from i x step, wrapped: the same elements in another order.
template <int kStep>
__global__ void strided_copy(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x, per = n / kStep;
  out[i] = in[(i % per) * kStep + i / per];
}

__global__ void reverse_scalar(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[n - 1 - i] = in[i];
}

__global__ void reverse_vector(float4* out, const float4* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n / 4) return;
  const float4 x = in[i];
  out[n / 4 - 1 - i] = make_float4(x.w, x.z, x.y, x.x);
}

__global__ void wave_accurate(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = logf(1.0f + expf(in[i])) * sinf(in[i]);
}

__global__ void wave_fast(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = __logf(1.0f + __expf(in[i])) * __sinf(in[i]);
}

__global__ void gelu_erf(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[i] * (1.0f + erff(in[i] * 0.70710678f));
}

__global__ void gelu_tanh(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = in[i];
  out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

// A polynomial of degree 96, by Horner's scheme: one chain an element.
template <int kEach>
__global__ void horner(float* out, const float* in, int n) {
  const int first = blockIdx.x * 256 * kEach + threadIdx.x;
  float x[kEach], y[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) x[k] = in[first + 256 * k], y[k] = 1.0f;
#pragma unroll 8
  for (int i = 0; i < 96; ++i)
#pragma unroll
    for (int k = 0; k < kEach; ++k) y[k] = y[k] * x[k] + 0.7f;
#pragma unroll
  for (int k = 0; k < kEach; ++k) out[first + 256 * k] = y[k];
}

__global__ void remainder_divided(unsigned* out, const unsigned* in, int n, unsigned divisor) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  unsigned x = in[i];
#pragma unroll 1
  for (int k = 0; k < 16; ++k) x = x % divisor * 1664525u + 1013904223u;
  out[i] = x;
}

__global__ void remainder_multiplied(unsigned* out, const unsigned* in, int n, unsigned divisor, unsigned inverse) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  unsigned x = in[i];
#pragma unroll 1
  for (int k = 0; k < 16; ++k) {
    unsigned rest = x - __umulhi(x, inverse) * divisor;
    if (rest >= divisor) rest -= divisor;
    x = rest * 1664525u + 1013904223u;
  }
  out[i] = x;
}

// Shared memory that is asked for and not used leaves room for fewer blocks.
__global__ void smooth(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float x = in[i];
  float y = x;
#pragma unroll 8
  for (int k = 0; k < 24; ++k) y = y * 0.9f + x * 0.1f;
  out[i] = y;
}

template <int kBytes>
int smooth_with(void* out, const void* in, int64_t n, cudaStream_t stream) {
  const cudaError_t error = cudaFuncSetAttribute(smooth, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error) return error;
  smooth<<<n / 256, 256, kBytes, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), n);
  return cudaGetLastError();
}

// Where each chain goes next depends on the word it read. A chain of b steps a thread.
__global__ void chase_one(unsigned* out, const unsigned* in, unsigned mask, int steps) {
  unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * 977u & mask;
  for (int k = 0; k < steps; ++k) at = in[at] * 2654435761u >> 7 & mask;
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

__global__ void chase_four(unsigned* out, const unsigned* in, unsigned mask, int steps) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned at[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) at[c] = (thread * 4 + c) * 977u & mask;
  for (int k = 0; k < steps; ++k)
#pragma unroll
    for (int c = 0; c < 4; ++c) at[c] = in[at[c]] * 2654435761u >> 7 & mask;
#pragma unroll
  for (int c = 0; c < 4; ++c) out[thread * 4 + c] = at[c];
}

template <int kStride>
__global__ void shared_walk(float* out, const float* in, int rounds) {
  __shared__ float bank[32 * 32];
  for (int i = threadIdx.x; i < 1024; i += 256) bank[i] = in[blockIdx.x * 1024 + i];
  __syncthreads();
  float sum = 0;
  int at = threadIdx.x * kStride % 1024;
#pragma unroll 4
  for (int k = 0; k < rounds; ++k) {
    sum += bank[at];
    at = (at + 33 * kStride) % 1024;
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

__global__ void two_steps_first(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = in[i] * 1.25f;
}
__global__ void two_steps_second(float* out, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = out[i] + 0.5f;
}
__global__ void two_steps_at_once(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = in[i] * 1.25f + 0.5f;
}

// Triples of floats, as structures or through shared memory.
__global__ void triples_direct(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float x = in[3 * i], y = in[3 * i + 1], z = in[3 * i + 2], length = rsqrtf(x * x + y * y + z * z);
  out[3 * i] = x * length, out[3 * i + 1] = y * length, out[3 * i + 2] = z * length;
}

__global__ void triples_staged(float* out, const float* in, int n) {
  __shared__ float stage[768];
  const int64_t first = int64_t{blockIdx.x} * 768;
#pragma unroll
  for (int k = 0; k < 3; ++k) stage[threadIdx.x + 256 * k] = in[first + threadIdx.x + 256 * k];
  __syncthreads();
  float* mine = stage + 3 * threadIdx.x;
  const float length = rsqrtf(mine[0] * mine[0] + mine[1] * mine[1] + mine[2] * mine[2]);
  mine[0] *= length, mine[1] *= length, mine[2] *= length;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 3; ++k) out[first + threadIdx.x + 256 * k] = stage[threadIdx.x + 256 * k];
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
LAUNCHER(copy_bytes) { LAUNCH(copy<int8_t>, cover(4 * a * b, 256), 256, (int8_t*)out, (const int8_t*)in, 4 * a * b); }
LAUNCHER(copy_halves) { LAUNCH(copy<int16_t>, cover(2 * a * b, 256), 256, (int16_t*)out, (const int16_t*)in, 2 * a * b); }
LAUNCHER(copy_words) { LAUNCH(copy<float>, cover(a * b, 256), 256, FLOATS, a * b); }
LAUNCHER(copy_fours) { LAUNCH(copy<float4>, cover(a * b / 4, 256), 256, (float4*)out, (const float4*)in, a * b / 4); }
LAUNCHER(scale_1_each) { LAUNCH(scale_each<1>, cover(a * b, 256), 256, FLOATS, a * b); }
LAUNCHER(scale_4_each) { LAUNCH(scale_each<4>, cover(a * b, 1024), 256, FLOATS, a * b); }
LAUNCHER(scale_16_each) { LAUNCH(scale_each<16>, cover(a * b, 4096), 256, FLOATS, a * b); }
LAUNCHER(axpy_of_32) { LAUNCH(axpy, cover(a * b, 32), 32, FLOATS, (const float*)in + a * b, a * b); }
LAUNCHER(axpy_of_256) { LAUNCH(axpy, cover(a * b, 256), 256, FLOATS, (const float*)in + a * b, a * b); }
LAUNCHER(axpy_of_1024) { LAUNCH(axpy, cover(a * b, 1024), 1024, FLOATS, (const float*)in + a * b, a * b); }
LAUNCHER(axpy_few_blocks) { LAUNCH(axpy_loop, 132, 256, FLOATS, (const float*)in + a * b, a * b); }
LAUNCHER(strided_by_1) { LAUNCH(strided_copy<1>, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(strided_by_4) { LAUNCH(strided_copy<4>, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(strided_by_32) { LAUNCH(strided_copy<32>, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(reverse_by_words) { LAUNCH(reverse_scalar, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(reverse_by_fours) { LAUNCH(reverse_vector, a * b / 1024, 256, (float4*)out, (const float4*)in, a * b); }
LAUNCHER(wave_accurately) { LAUNCH(wave_accurate, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(wave_quickly) { LAUNCH(wave_fast, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(gelu_by_erf) { LAUNCH(gelu_erf, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(gelu_by_tanh) { LAUNCH(gelu_tanh, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(horner_1_each) { LAUNCH(horner<1>, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(horner_4_each) { LAUNCH(horner<4>, a * b / 1024, 256, FLOATS, a * b); }
LAUNCHER(remainder_by_division) {
  LAUNCH(remainder_divided, a * b / 256, 256, (unsigned*)out, (const unsigned*)in, a * b, 40961u);
}
LAUNCHER(remainder_by_product) {
  LAUNCH(remainder_multiplied, a * b / 256, 256, (unsigned*)out, (const unsigned*)in, a * b, 40961u, 104855u);
}
LAUNCHER(smooth_8_blocks) { return smooth_with<1024>(out, in, a * b, stream); }
LAUNCHER(smooth_2_blocks) { return smooth_with<100000>(out, in, a * b, stream); }
LAUNCHER(smooth_1_block) { return smooth_with<200000>(out, in, a * b, stream); }
LAUNCHER(chase_by_one) { LAUNCH(chase_one, 528, 128, (unsigned*)out, (const unsigned*)in, (unsigned)a * 1024u - 1u, b); }
LAUNCHER(chase_by_four) { LAUNCH(chase_four, 132, 128, (unsigned*)out, (const unsigned*)in, (unsigned)a * 1024u - 1u, b); }
LAUNCHER(walk_without_conflicts) { LAUNCH(shared_walk<1>, a, 256, FLOATS, b); }
LAUNCHER(walk_2_at_a_bank) { LAUNCH(shared_walk<2>, a, 256, FLOATS, b); }
LAUNCHER(walk_8_at_a_bank) { LAUNCH(shared_walk<8>, a, 256, FLOATS, b); }
LAUNCHER(steps_apart) {
  two_steps_first<<<a * b / 256, 256, 0, stream>>>(FLOATS, a * b);
  two_steps_second<<<a * b / 256, 256, 0, stream>>>((float*)out, a * b);
  return cudaGetLastError();
}
LAUNCHER(steps_fused) { LAUNCH(two_steps_at_once, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(triples_from_global) { LAUNCH(triples_direct, a, 256, FLOATS, 256 * a); }
LAUNCHER(triples_through_shared) { LAUNCH(triples_staged, a, 256, FLOATS, 256 * a); }
