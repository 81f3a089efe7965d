"""The task as a prompt shows it: the stable part, the same in every turn of a run."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.task.contract_text import (
    argument_text,
    codes_text,
    domain_lines,
    scalar_text,
    types_text,
)
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.text import fenced
from astra_chat.tools.timing.comparison import resolution_text
from astra_chat.tools.types import Basis


def task_text(task: Task, device: str) -> str:
    """What a kernel of the task computes, of which arguments, and how results are compared."""
    args = _bullets([*map(argument_text, task.args), *map(scalar_text, task.scalars)])
    tolerance = ", ".join(
        f"{dtype} rtol {t.rtol:g} atol {t.atol:g}" for dtype, t in task.tolerance.items()
    )
    return (
        f"{task.summary}\nArguments (T is the dtype of the case):\n{args}\n"
        f"Legal dims:\n{_bullets(domain_lines(task))}\n"
        f"dtypes: {types_text(task)}; tolerance: {tolerance}; rms error"
        f" at most {task.oracle_ratio:g} times the baseline's own\n"
        f"nvcc flags: {' '.join(task.flags)}\nDevice: {device}"
    )


def launcher_text(task: Task) -> str:
    """The prototype of the launcher to export."""
    return f"{fenced(f'{prototype(task)};')}\n{codes_text(task)}"


def comparison_text(basis: Basis) -> str:
    """How candidates are compared, and what cannot be told from nothing."""
    return (
        "A candidate's ratio is the weighted geometric mean of its cases' speeds over the"
        f" baseline. Two candidates {resolution_text(basis)} are a tie: the one with the higher"
        " ratio is kept, of equals the earlier. Candidates that are not kept stay reachable."
    )


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
