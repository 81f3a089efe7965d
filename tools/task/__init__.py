"""A task: the contract of a kernel, its cases, and whose code may run outside the sandbox.

shipped        the tasks that ship with Astra, by name
folder         a task folder read into values: contract and cases
contract       what a contract says of arguments, dims, scalars and tolerances
binding        how the launcher calls a function of the user's file
precision      [precision]: the roundings that a right kernel makes
memory         [memory]: what a call needs besides its inputs, as the second objective
ranks          kernels over several GPUs: what each rank holds
batch_invariance  rows whose results have the same bits in every batch
expressions    extents, strides, bounds and relations: text that is checked and computed
domain         the legal domain: which calls a caller may make
relations      relations between dims, and extents that meet them
contradictions what a contract says that cannot be
task_file      task.toml as fields, and its problems with their lines
toml_lines     where in a TOML file a value stands
toml_edits     values of a task.toml replaced; its other text stays
tiers          tiers of baseline: whose kernel a candidate is held against
contract_text  a contract as text, for models and people
case_text      a case as a line of TOML, and back
groups         arguments that callers pass as views of one buffer, or by one pointer
placement      where the arguments of a call lie: blocks of memory, and each argument's place
block_images   contents of blocks: arguments spread into them, and each one's own out of them
spans          bytes of an argument's buffer, and those that its elements reach
buffer_layout  how a tensor lies in its buffer: dense rows or padded rows
launcher       the C side of the contract: the launcher's prototype, and the call that fits it
trust          whether the code of a task or candidate may run outside the sandbox
"""
