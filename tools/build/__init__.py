"""Build: sources to libraries, PTX and machine code.

nvcc                 candidates: one ninja graph, one nvcc call each, a content-hash cache
extension_headers    headers in the place of torch's and tvm-ffi's (texts: extension_sources/)
disassembly          nvdisasm's text of a build, when it is asked for
same_code            kernels whose device code is another build's, to the byte
bound_launcher       the launcher that a task's [binding] stands for
proven_object        an object file, proven to be that of the author's text
hosted               a build linked with NVIDIA's runtime, as it is shipped
preprocessed         a candidate's own lines after nvcc's preprocessor
virtual_gpu_kernels  the virtual GPU's C engine, compiled in the sandbox
cpp_expressions      expressions of a contract as C++
tvm_ffi_binding      a task's tvm-ffi binding: checks tensors and calls the launcher
"""
