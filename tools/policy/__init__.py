"""Source policy: what a candidate's source may contain, and what its build is checked for.

rules            the table: allowed headers and CUDA calls, forbidden names, and why
source_guard     reads a source as tokens and applies the rules, also to inline assembly and to
                 names of files; of a candidate, which may keep some of what its baseline has
misnamed         a file that does not define what [binding] calls
open_names       tests of macros that another build may define
binary_audit     symbols, constructors, sections and driver calls of the build
module_state     why no kernel may write to a module variable
register_flow    what a kernel does with the timer, the grid's barrier and what a wait returns
ptx_audit        precision, cache policy and the driver's registers in the PTX
"""
