"""The fake CUDA runtime (libcudart) in C; runtime/cudart_binding.py builds and binds it."""
