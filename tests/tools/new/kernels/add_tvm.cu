// A file in the convention of tvm-ffi: views in, a stream from the environment.
#include <cuda_fp16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

__global__ void scaled_add_kernel(const half* x, const half* y, half* out, float alpha, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __float2half(__half2float(x[i]) + alpha * __half2float(y[i]));
}

}  // namespace

void scaled_add(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out,
                double alpha) {
  TVM_FFI_ICHECK(x.ndim() == 1) << "x must be a 1D tensor";
  DLDataType f16_dtype{kDLFloat, 16, 1};
  TVM_FFI_ICHECK(x.dtype() == f16_dtype) << "x must be a float16 tensor";
  int64_t n = x.shape()[0];
  int64_t threads = 256;
  cudaStream_t stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  scaled_add_kernel<<<(n + threads - 1) / threads, threads, 0, stream>>>(
      static_cast<const half*>(x.data_ptr()), static_cast<const half*>(y.data_ptr()),
      static_cast<half*>(out.data_ptr()), static_cast<float>(alpha), n);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scaled_add, scaled_add);
