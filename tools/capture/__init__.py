"""`astra-chat capture`: the calls of an operator in a user's own program, and tasks made of them.

calls           a file of captured calls: its schema, read and written
program         the user's program run with the recorder in it
fused_op_trace  SGLang's trace of fused operators, read as captured calls
findings        what the calls say: views of one buffer, contradictions, what was not seen
fitting         a captured call as a case of a contract
refresh         a task.toml with the cases of captured calls
inside/         what the captured program's Python loads: the recorder
"""
