"""A task: the contract of a kernel, its cases, and whose code may run outside the sandbox.

folder         a task folder read into values: contract and cases
contract       what a contract says of arguments, dims, scalars and tolerances
tiers          tiers of baseline: whose kernel a candidate is held against
case_text      a case as a line of TOML, and back
buffer_layout  how a tensor lies in its buffer: dense rows or padded rows
launcher       the C side of the contract: the launcher's prototype, and the call that fits it
trust          whether the code of a task or candidate may run outside the sandbox
"""
