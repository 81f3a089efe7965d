"""Memory as a second objective: what [memory] of task.toml says, and what a call needs.

A call needs its results, and each workspace up to the last byte that it writes to: a caller has to
allocate that much. The most that it may need is the extent of the workspaces.
"""

from __future__ import annotations

from astra_chat.tools.case import Case, Value
from astra_chat.tools.task.domain import Domain
from astra_chat.tools.task.expressions import Extent, evaluate
from astra_chat.tools.types import MemoryUse


class Memory(Value):
    """The contract's second objective."""

    eager: Extent
    """Bytes that PyTorch's own operators allocate for the same call, their results included."""

    def eager_bytes(self, task: Domain, case: Case) -> int:
        """Returns what PyTorch allocates for a call of this case."""
        return evaluate(self.eager, task.names_in(case))

    @property
    def text(self) -> str:
        """The objective as a line for models and people."""
        return (
            "memory counts as well: a call's memory is its results and each workspace up to the"
            " last byte written, so fill a workspace from its start; at equal speed (within"
            " 1 %), the candidate that needs less memory is the better one; eager PyTorch"
            f" allocates {self.eager} bytes"
        )


def memory_use(
    memory: Memory | None, task: Domain, case: Case, own: int | None, baseline: int | None
) -> MemoryUse | None:
    """What candidate and baseline need for a call; None where the contract does not ask, or not all
    of a call was seen. `own`, `baseline`: bytes of the workspaces that they use."""
    if memory is None or own is None or baseline is None:
        return None
    results = sum(arg.bytes_of(case) for arg in task.args if arg.access == "write")
    return MemoryUse(
        bytes=results + own,
        baseline_bytes=results + baseline,
        eager_bytes=memory.eager_bytes(task, case),
    )
