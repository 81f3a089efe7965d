// One planted bug a kernel; the line numbers are checked.
#include <cassert>
extern "C" __global__ void off_by_one(float *out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = 1.0f;  // line 5
}
extern "C" __global__ void misaligned(float *out) {
  *reinterpret_cast<float4 *>(out + 1 + threadIdx.x * 4) = make_float4(1, 2, 3, 4);  // line 8
}
extern "C" __global__ void no_barrier(float *out, const float *in) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[127 - threadIdx.x];  // line 13
}
extern "C" __global__ void overwritten(float *out, const float *in) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[(threadIdx.x + 32) % 128];
  tile[threadIdx.x] = 0.0f;  // line 20
}
extern "C" __global__ void two_writers(int *out) {
  __shared__ int flag;
  flag = threadIdx.x / 32;  // line 24
  __syncthreads();
  out[threadIdx.x] = flag;
}
extern "C" __global__ void same_value(int *out) {
  __shared__ int flag;
  flag = 7;
  __syncthreads();
  out[threadIdx.x] = flag;
}
extern "C" __global__ void torn_barrier(int *out) {
  if (threadIdx.x < 16) __syncthreads();  // line 35
  out[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void two_barriers(int *out, int n) {
  if (threadIdx.x < 32) {
    out[0] = 1;
    __syncthreads();  // line 41
  } else {
    out[1] = n;
    __syncthreads();
    out[2] = n;
  }
}
extern "C" __global__ void missing_lanes(int *out, const int *in) {
  int v = in[threadIdx.x];
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);  // line 50
  out[threadIdx.x] = v;
}
extern "C" __global__ void shared_overrun(int *out) {
  __shared__ int tile[32];
  tile[threadIdx.x + out[0]] = 1;  // line 55
  __syncthreads();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
extern "C" __global__ void null_pointer(int *out, const int *in) {
  out[threadIdx.x] = in[threadIdx.x];  // line 60
}
extern "C" __global__ void endless(volatile int *out) {
  while (*out == 0) {}  // line 63
}
extern "C" __global__ void asserts(int *out, int n) {
  assert((int)threadIdx.x < n);  // line 66
  out[threadIdx.x] = 1;
}
extern "C" __global__ void traps(int *out) {
  if (out[threadIdx.x] == 3) __trap();  // line 70
}
