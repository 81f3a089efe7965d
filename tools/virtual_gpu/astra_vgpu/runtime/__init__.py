"""The fake CUDA runtime: host code calls it, the virtual GPU executes.

cudart_build    builds cudart/ with the host compiler
cudart_binding  binds it to Python (ctypes)
host            the interface that the fake runtime calls
calls           CUDA runtime calls on a VirtualGpu: cudaMalloc, launches, copies
fat_binary      PTX and machine code in a program's own memory
printf          device printf
compile         nvcc: a .cu file to host code, PTX and machine code
"""
