"""The fake CUDA runtime: host code calls it, the virtual GPU answers.

cudart_binding  builds cudart/ and binds it to Python
host            what the fake runtime asks of its host
calls           runtime calls on a VirtualGpu
printf          device printf
compile         a .cu file to host code, PTX and machine code
"""
