"""Judgement kind `accept`, and outputs in canonical form: what reference.py says of outputs, where
many are legal. It runs in the oracle process, walled, when the call has ended."""

from __future__ import annotations

import numpy as np

from astra_chat.tools.check.floats import as_float
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Answer, Outputs
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, Wrong

LONGEST = 500
"""Characters of what reference.py says."""


def comparable(task: Task, run: CaseRun, outputs: Outputs) -> Outputs | Wrong:
    """The outputs to be compared with the expected ones: in canonical form, where the task has one;
    without those that accept has judged. Wrong where it refuses them.

    Where all blocks cost too much even for this (runners/virtual.py), a sample of them leaves
    outputs that nobody can judge as a whole: only what is compared by its elements is left then,
    and nothing that needs a canonical form.
    """
    case = run.oracle_case.case
    asked = {arg.name for arg in task.args if arg.written and arg.judged_by(case) == "accept"}
    canonical = run.oracle_case.has_canonical
    if not asked and not canonical:
        return outputs
    if run.report.sampled:
        kept = () if canonical else outputs.keys() - asked
        return {name: outputs[name] for name in kept}
    for arg in task.args:
        if arg.written and arg.dtype_of(case) == "bool" and (outputs[arg.name] > 1).any():
            return _refused(task, case, outputs, Answer("a bool must be 0 or 1", arg.name))
    answer = run.oracle_case.answer(outputs)
    if answer.why:
        return _refused(task, case, outputs, answer)
    outputs = answer.canonical or outputs
    return {name: content for name, content in outputs.items() if name not in asked}


def _refused(task: Task, case: Case, outputs: Outputs, answer: Answer) -> Wrong:
    arg = _place(task, case, answer)
    shape, index = arg.shape_of(case), answer.index
    legal = len(index) == len(shape) and all(0 <= i < n for i, n in zip(index, shape, strict=True))
    got = float("nan")
    if legal:
        values = as_float(outputs[arg.name], arg.dtype_of(case))
        got = float(values[np.ravel_multi_index(index, shape)])
    return Wrong(
        case=case,
        argument=arg.name,
        reason="not_accepted",
        index=index if legal else (),
        expected=float("nan"),
        got=got,
        bad=1,
        total=len(outputs[arg.name]),
        note=answer.why[:LONGEST],
    )


def _place(task: Task, case: Case, answer: Answer) -> Arg:
    """The argument that is named, or the first that accept judges, or the first of all."""
    written = [arg for arg in task.args if arg.written]
    named = [arg for arg in written if arg.name == answer.argument]
    asked = [arg for arg in written if arg.judged_by(case) == "accept"]
    return [*named, *asked, *written][0]
