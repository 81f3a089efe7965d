"""The fake CUDA runtime: host code calls it, the virtual GPU executes.

cudart_binding  builds cudart/ and binds it to Python (ctypes)
host            the interface that the fake runtime calls
calls           CUDA runtime calls on a VirtualGpu: cudaMalloc, launches, copies
printf          device printf
compile         nvcc: a .cu file to host code, PTX and machine code
"""
