"""Headers of ours in the place of torch's, tvm-ffi's and those of NVIDIA's libraries.

build/extension_headers.py gives them out.

error          what a failed check throws; torch's macros of checks, and of C10
small_floats   c10's 16-bit and 8-bit floats
scalar_types   dtypes, each with its C++ type
containers     ArrayRef, optional, irange
memory         what torch::empty gives out: the contract's results and workspaces
tensor         at::Tensor and what makes one
cuda           streams, guards, device properties
dispatch       AT_DISPATCH_*
stable         torch's stable ABI: the same by its names
values         the launcher's arguments as the parameters of the user's function
library        TORCH_LIBRARY and PYBIND11_MODULE
tvm_ffi        tvm-ffi's tensors, checks and exports
libraries      cuBLAS, cuSPARSE, cuFFT, cuRAND's host side, NCCL: names whose call is an error
random         cuRAND's Philox generator in kernels
extension      all of torch's
launcher       what a generated launcher is made of (build/bound_launcher.py)
"""
