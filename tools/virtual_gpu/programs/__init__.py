"""Whole CUDA programs with their own main().

run_program   builds a program, runs it, prints its report: `run PROGRAM.cu`
program_host  the CUDA runtime of a whole program
worker        the process that a program runs in
"""
