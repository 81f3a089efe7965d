"""Source policy: what a candidate's source may contain, and what its build is checked for.

rules         the table: allowed headers and CUDA calls, forbidden names, and why
source_guard  reads a source as tokens and applies the rules
cpp_tokens    tokens of a CUDA C++ source, as its preprocessor reads them
binary_audit  symbols, constructors, variables and relocations of the build
ptx_audit     persistent variables, precision and cache policy in the PTX
elf           reads ELF: sections, symbols, relocations
"""
