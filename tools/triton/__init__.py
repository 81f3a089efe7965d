"""Triton candidates: a .py file of kernels and a launcher becomes CUDA text that is judged as such.

candidate     what is read of a source: kernels, constants, launcher
autotune      @triton.autotune as marked constants
allowed       names of triton.language that a kernel may use
expressions   arithmetic of the launcher: which of it is allowed, its types, its C++
launcher      the launcher's statements
variants      what is compiled: element types and constants of every launch
translated    the CUDA text: Triton's machine code and the launcher in C++
cpp_launch    C++ that launches a compiled kernel
compile       PTX of a Triton kernel, by Triton in a process of its own
child         that process
ptx           Triton's PTX as a CUDA kernel with one asm statement
"""
