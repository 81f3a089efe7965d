"""What the virtual GPU stands on; the judge stands on it too. The standard library is all it needs.

errors      exceptions for bad input and missing dependencies, and their exit codes
gpu_specs   constants of real GPUs, and the physical limit of a kernel's time
toolkit     finds the CUDA toolkit, the host compiler and NVIDIA's tools
elf         reads ELF: sections, symbols, relocations
cubin       what a launch must fit to: kernels and variables of a cubin
cache       build outputs by content hash, published by one atomic rename
cache_size  what lies in the cache, its limit, and what goes first
freed_memory  what malloc keeps of freed arrays
"""
