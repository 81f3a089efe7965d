"""Planted faults of kernels over several GPUs, and of ranks: each must be found, none may hang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_vgpu.ground.errors import AstraError
from astra_chat.tools.task.ranks import RanksTask
from astra_chat.tools.ranks.group import Group
from astra_chat.tools.ranks.judge import Asked, RanksEvaluation, Tell, evaluate

KILLED = "a rank killed during the calls"
OUT = (
    "    call.out[row + i] = __float2bfloat16_rn(sums[i] * scale *"
    " __bfloat162float(call.weight[i]));"
)


@dataclass(frozen=True)
class PlantedFault:
    """One wrong kernel: an edit of a kernel of the folder."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    outcomes: tuple[str, ...] = ("wrong",)
    """Outcomes that find it."""

    def source(self, task: RanksTask) -> str:
        """Returns the kernel's text. Raises AstraError where an edit does not fit it any more."""
        text = (task.task.folder / self.file).read_text()
        for old, new in self.edits:
            if old not in text:
                raise AstraError(f"planted fault '{self.name}': {self.file} has no '{old}'")
            text = text.replace(old, new)
        return text


FAULTS = (
    PlantedFault(
        "no barrier after the reads: a peer's next input is read",
        "baseline.cu",
        (("  barrier(call, passed + 2);", "  __syncthreads();"), ("= passed + 2", "= passed + 1")),
    ),
    PlantedFault(
        "signals sent, never waited for",
        "baseline.cu",
        (("while (static_cast<int32_t>(load_acquire(reached) - number) < 0) {", "{"),),
    ),
    PlantedFault(
        "flags that do not count the calls",
        "baseline.cu",
        (("= passed + 2;", "= 0;"),),
    ),
    PlantedFault(
        "one place for the rows of two calls",
        "pull.cu",
        (("number % 2;", "0;"),),
    ),
    PlantedFault(
        "one rank rounds another way: other bits than its peers hold",
        "baseline.cu",
        ((OUT, f"{OUT.replace('_rn', '_rz')}\n    if (call.rank != 0) {OUT.strip()}"),),
    ),
    PlantedFault(
        "the rank's own input overwritten",
        "baseline.cu",
        (
            (
                "    sums[i] = sum;",
                "    sums[i] = sum;\n    const_cast<__nv_bfloat16*>(reinterpret_cast<const"
                " __nv_bfloat16*>(call.inputs[call.rank]))[row + i] = __float2bfloat16_rn(sum);",
            ),
        ),
    ),
    PlantedFault(
        "rank 0 signals nobody: its peers wait for ever",
        "baseline.cu",
        (("    store_release(&", "    if (call.rank != 0) store_release(&"),),
        ("timed_out",),
    ),
)


def tried(
    task: RanksTask, asked: Asked, only: str, tell: Tell
) -> Iterator[tuple[str, RanksEvaluation, bool]]:
    """Judges every planted fault, then the baseline while one rank is killed.

    Args:
        task: The contract; its limit of time ends what hangs.
        asked: How each is judged.
        only: Faults whose names contain this are tried.
        tell: Called with what is being done.

    Yields:
        A fault's name, its evaluation, and whether that found it.
    """
    for fault in FAULTS:
        if only in fault.name:
            found = evaluate(task, fault.source(task), asked, tell)
            yield fault.name, found, found.outcome in fault.outcomes
    if only in KILLED:
        found = evaluate(task, task.task.baseline, asked, tell, _kill_last)
        yield KILLED, found, found.outcome == "crashed"


def _kill_last(group: Group) -> None:
    group.processes[-1].kill()


def undetected(found: Sequence[tuple[str, RanksEvaluation, bool]]) -> list[str]:
    """Returns the names of the faults that were not found."""
    return [name for name, _, detected in found if not detected]
