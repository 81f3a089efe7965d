"""Whole CUDA programs with their own main().

run_program   builds a program and runs it: `run PROGRAM.cu`
program_host  the CUDA runtime of a whole program
worker        the process that a program runs in
findings      findings of a run, as data
suppressions  findings that a user accepts
report_text   the report for people
report_files  the report as JSON and SARIF
run_command   the command `run` and its options
"""
