"""Whole CUDA programs with their own main().

run_program   builds a program and runs it: `run PROGRAM.cu`
build_program nvcc for whole programs
recording     the virtual GPU of a program, and what happens on it as rows
program_host  the CUDA runtime of a whole program
library_calls cuBLAS and cuRAND calls, answered with NumPy
library_operands matrices and vectors of such calls
library_vectors cuBLAS calls on vectors
nvcc_command  an nvcc for Make and CMake, whose programs bring a virtual GPU along
embedded      the virtual GPU inside such a program
doctor        what is there on this machine
worker        the process that a program runs in
findings      findings of a run, as data
suppressions  findings that a user accepts
report_text   the report for people
report_files  the report as JSON and SARIF
run_command   the command `run` and its options
"""
