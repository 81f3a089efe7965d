"""The fake CUDA runtime (libcudart) in C; built and bound by runtime/."""
