extern "C" __global__ void returned_early(float *out, const float *in, int n) {
  __shared__ float tile[128];
  const int i = threadIdx.x;
  if (i >= n) return;
  tile[i] = in[i];
  __syncthreads();
  out[i] = tile[(i + 1) % n];
}
extern "C" __global__ void stored_and_returned(float *out, const float *in, int n) {
  __shared__ float tile[128];
  const int i = threadIdx.x;
  tile[i] = in[i];
  for (int k = 0; k < 3; k++) {
    if (i >= n - k) {
      out[i] = -1.0f - k;
      return;
    }
    __syncthreads();
    if (i == 0) tile[0] += 1.0f;
    __syncthreads();
  }
  out[i] = tile[0];
}
extern "C" __global__ void two_places(int *out, int n) {
  __shared__ int tile[64];
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = n;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x + 32];
  } else {
    tile[threadIdx.x] = 2 * n;
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x - 32] + 1;
  }
}
extern "C" __global__ void torn_between_two(int *out, int n) {
  if (threadIdx.x % 32 < 16) {
    out[0] = n;
    __syncthreads();  // line 39
    out[2] = n;
  } else {
    out[1] = n;
    __syncthreads();  // line 43
    out[3] = n;
  }
}
extern "C" __global__ void skipped_then_branched(int *out, int n) {
  if (threadIdx.x < 16) __syncthreads();  // line 48
  out[threadIdx.x] = 1;
  if (threadIdx.x > n) out[threadIdx.x] = 2;
}
extern "C" __global__ void skipped_in_a_loop(int *out, int n) {
  for (int k = 0; k < n; k++) {
    out[threadIdx.x] += k;
    if (threadIdx.x % 2) __syncthreads();  // line 55
  }
}
extern "C" __global__ void skipped_by_a_warp(int *out, int n) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = n;
    __syncthreads();  // line 61
  }
  out[threadIdx.x] += 1;
}
extern "C" __global__ void skipped_then_waited(int *out, int n) {
  if (threadIdx.x < 32) {
    out[threadIdx.x] = n;
    __syncthreads();  // line 68
  }
  out[threadIdx.x] += 1;
  __syncthreads();  // line 71
  out[threadIdx.x] += 1;
}
extern "C" __global__ void fewer_turns(int *out, int n) {
  for (int k = threadIdx.x / 32; k < n; k += 2) {
    out[threadIdx.x] += k;
    __syncthreads();  // line 77
  }
  out[threadIdx.x] += 1;
  __syncthreads();  // line 80
}
