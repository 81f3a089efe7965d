"""Whole CUDA programs with their own main().

programs      `run PROGRAM.cu`
program_host  the CUDA runtime of a whole program
worker        the process that a program runs in
"""
