"""Candidates that are torch extensions: a C++/CUDA file with kernels of its own and a function
`forward`, which may call a short list of PyTorch's operators. For module tasks, on a real GPU.

rules      headers, operators and names that such a file may use
guard      reads a source by tokens and refuses what is not allowed
build      nvcc against torch's headers; what the built library asks of others
evaluating the steps of one evaluation: guard, build, audit, check, times
turns      times by turns with the module, eager and compiled
questions  what both processes are asked, and what an evaluation makes of the answers
inside/    the program of our process
"""
