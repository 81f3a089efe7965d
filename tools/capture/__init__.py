"""`astra-chat capture`: the calls of an operator in a user's own program, and tasks made of them.

calls           a file of captured calls: its schema, read and written
program         the user's program run with the recorder in it
journals        what the recorder's processes wrote, folded into captured calls
fused_op_trace  SGLang's trace of fused operators, read as captured calls
findings        what the calls say: views of one buffer, contradictions, what was not seen
mapping         which argument of a contract is which parameter of an operator
solving         dims that give a call's extents
fitting         a captured call as a case of a contract
case_lists      bench, check and demo cases of captured calls, and the domain round them
refresh         a task.toml with the cases of captured calls
inside/         what the captured program's Python loads: the recorder
"""
