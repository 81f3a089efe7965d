"""PTX text to values.

parser           PTX text to a Module: declarations
body             the body of one function: scopes, registers, labels, instructions
lexer            text to tokens
cursor           a position in the tokens
header           version, target, address size
directives       directives of functions and kernels
declarations     variables and parameters
constants        constant expressions
constant_ranges  constants that an operand may be
syntax           the values: operands, instructions, functions, modules
modifiers        one instruction's modifiers
modifier_rules   modifiers that exclude each other
signatures       what each operand of an instruction has to be
operands         operands checked against signatures
validation       every instruction of a kernel, checked as ptxas checks it
debug_lines      source lines: .file, .loc, DWARF
"""
