"""The command that shows a kernel's failure again, on the same cases and inputs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_chat.tools.evaluation import Evaluation
    from astra_chat.tools.task.contract import Scalar


def reproduce_command(
    evaluation: Evaluation,
    task: str,
    kernel: str,
    options: Sequence[str] = (),
    timing: Sequence[str] | None = None,
    scalars: Sequence[Scalar] = (),
) -> str:
    """`astra-chat check TASK KERNEL --case ... --seed ...`, as a shell takes it; empty where the
    failure needs no case or the evaluation has no seed.

    `options` are for any command. `timing` is for a failure while the kernel was timed: the
    options of `astra-chat time`; None where it was only checked. `scalars` are the task's.
    """
    from astra_chat.tools.task.case_text import case_text

    case = getattr(evaluation.outcome, "case", None)
    if case is None or not evaluation.seed:
        return ""
    if timing is None or evaluation.steps[-1].name == "check":
        own = ["--case", case_text(case, scalars)]
        words = ["astra-chat", "check", task, kernel, *options, *own]
    else:
        words = ["astra-chat", "time", task, kernel, *options, *timing]
    return shlex.join([*words, "--seed", evaluation.seed])
