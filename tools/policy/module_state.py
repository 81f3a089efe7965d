"""Module variables that kernels write: memory that two calls at once would share.

The judge runs one call after the other, so it cannot see what two calls at once do to a counter
that each of them sets back. A kernel may read module variables, `__constant__` tables among them,
and writes to its arguments alone. The virtual GPU's package finds the stores in its PTX. An address
that a kernel hides from that is found where the call is made: runners/virtual.py looks at what was
stored, runners/cuda_state.py at what a variable holds afterwards.
"""

SHARED_STATE = (
    "two calls that run at the same time would share it. Data that blocks share belongs in a"
    ' workspace of the contract (access = "workspace" in task.toml): its contents are unspecified'
    " before a call, so the kernel or a memset of the launcher has to clear it"
)
"""Why no kernel may write to a module variable, and what to do instead."""
