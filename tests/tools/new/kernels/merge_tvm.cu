// Two partial attentions merged: sizes and ranks stated by checks alone, float32 beside halves.
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

__global__ void MergeKernel(const half* v_a, const float* s_a, const half* v_b, const float* s_b,
                            half* v_merged, float* s_merged, int head_dim) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y;
  const float most = fmaxf(s_a[at], s_b[at]);
  const float a = exp2f(s_a[at] - most), b = exp2f(s_b[at] - most);
  for (int i = threadIdx.x; i < head_dim; i += blockDim.x) {
    const float x = __half2float(v_a[at * head_dim + i]), y = __half2float(v_b[at * head_dim + i]);
    v_merged[at * head_dim + i] = __float2half((x * a + y * b) / (a + b));
  }
  if (threadIdx.x == 0) s_merged[at] = log2f(a + b) + most;
}

void merge_state(TensorView v_a, TensorView s_a, TensorView v_b, TensorView s_b,
                 TensorView v_merged, TensorView s_merged) {
  CHECK_INPUT(v_a);
  CHECK_DIM(3, v_a);
  CHECK_DIM(2, s_a);
  CHECK_SHAPE(v_a, v_b);
  CHECK_SHAPE(s_a, s_b);
  TVM_FFI_ICHECK_EQ(v_a.size(0), s_a.size(0));
  TVM_FFI_ICHECK_EQ(v_a.size(1), s_a.size(1));
  CHECK_SHAPE(v_merged, v_a);
  CHECK_SHAPE(s_merged, s_a);
  unsigned int seq_len = v_a.size(0);
  unsigned int num_heads = v_a.size(1);
  unsigned int head_dim = v_a.size(2);
  const cudaStream_t stream =
      static_cast<cudaStream_t>(TVMFFIEnvGetStream(v_a.device().device_type, 0));
  MergeKernel<<<dim3(seq_len, num_heads), 64, 0, stream>>>(
      static_cast<half*>(v_a.data_ptr()), static_cast<float*>(s_a.data_ptr()),
      static_cast<half*>(v_b.data_ptr()), static_cast<float*>(s_b.data_ptr()),
      static_cast<half*>(v_merged.data_ptr()), static_cast<float*>(s_merged.data_ptr()), head_dim);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(merge_state, merge_state);
