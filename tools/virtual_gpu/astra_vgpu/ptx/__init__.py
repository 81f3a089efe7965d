"""PTX parser: text to values, and validation as ptxas does it.

parser           PTX text to a Module: declarations
body             the body of one function: scopes, registers, labels, instructions
lexer            text to tokens
some_kernels     a text without the kernels that nobody launches
cursor           a position in the tokens
header           .version, .target, .address_size
directives       directives of functions and kernels (.maxntid, ...)
declarations     variables and parameters
constants        constant expressions
constant_ranges  ranges of constant operands
syntax           the values: operands, instructions, functions, modules
modifiers        one instruction's modifiers, each consumed exactly once
modifier_rules   modifiers that exclude each other
signatures       what each operand of an instruction must be
operands         operands checked against signatures
validation       every instruction of a module, checked as ptxas checks it
debug_lines      source lines: .file, .loc, DWARF
"""
