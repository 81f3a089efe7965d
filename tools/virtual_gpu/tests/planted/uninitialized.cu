// Planted uninitialized reads. Four blocks of 128 threads; out, n floats, is uninitialized.
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define INDEX (int)(blockIdx.x * blockDim.x + threadIdx.x)

KERNEL(adds_to_nothing) {
  out[INDEX] += in[INDEX];  // BUG adds_to_nothing
}
KERNEL(sum_was_not_zeroed) {
  atomicAdd(out + threadIdx.x % 8, in[INDEX]);  // BUG sum_was_not_zeroed
}
KERNEL(half_a_tile) {
  __shared__ float tile[128];
  if (threadIdx.x < 64) tile[threadIdx.x] = in[INDEX];
  __syncthreads();
  out[INDEX] = tile[127 - threadIdx.x];  // BUG half_a_tile
}
KERNEL(shared_count_was_not_zeroed) {
  __shared__ int count;
  atomicAdd(&count, 1);  // BUG shared_count_was_not_zeroed
  __syncthreads();
  out[INDEX] = count;
}
KERNEL(three_of_four) {
  if (INDEX < n / 4) {
    for (int k = 0; k < 3; k++) out[4 * INDEX + k] = in[INDEX];
    __threadfence();
    float4 all = reinterpret_cast<float4*>(out)[INDEX];  // BUG three_of_four
    out[4 * INDEX] = all.x + all.w;
  }
}
