"""C sources of the fake CUDA runtime; runtime.py compiles and binds them."""
