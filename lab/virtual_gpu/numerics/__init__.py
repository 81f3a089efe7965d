"""Results of instructions, here and on a GPU.

`python -m lab.virtual_gpu numerics`

instruction   one instruction of the test
instructions  all of them, with NVIDIA's stated error bounds
matrices      matrix products: mma, and wmma with its loads and stores
inputs        the inputs of each instruction
program       the CUDA program that runs them
ulps          distance of two results in units of the last place
report        the command and its table
"""
