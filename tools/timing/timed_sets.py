"""Judges what timed launches on a real GPU wrote, by the buffer sets that they handed over.

The runner compared all sets with the baseline's results on the device (runners/cuda_verify.py).
Here the oracle judges those that differ, and a drawn part of all with the baseline's results on
them: what the baseline gets wrong it cannot vouch for.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np

from astra_chat.tools.check.compare import compare_written
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CaseReport, FetchedSet, TimedMode
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Wrong
from astra_vgpu.ground.errors import BadInput

HOW_TEXT: dict[TimedMode, str] = {
    "cold": "in a timed replay, L2 cold",
    "warm": "in a timed replay, L2 warm",
    "events": "in a timed launch between two events",
}


def judged(
    task: Task,
    run: CaseRun,
    oracle: Oracle,
    stop: Stop,
    right: set[str],
    *,
    correct_baseline: bool = True,
) -> CaseRun | Wrong:
    """The results on the case's own inputs, or what is wrong with those of any set. `right` keeps
    the hashes of results of the baseline that were compared and found right.

    Raises BadInput where the baseline's results are wrong, unless that is expected, and Cancelled.
    """
    if run.report.touched:
        return _touched(run, run.report.touched[0])
    others = [fetched for fetched in run.report.sets if not fetched.own]
    given = [(run.oracle_case.case, run.folder / fetched.folder) for fetched in others]
    made = oracle.on_inputs(given, stop)
    try:
        known = dict(zip(others, made, strict=True))
        runs = [
            _of_set(run, fetched, known.get(fetched, run.oracle_case))
            for fetched in run.report.sets
        ]
        for fetched, one in zip(run.report.sets, runs, strict=True):
            if fetched.baseline and correct_baseline:
                _require_correct(task, one, right)
            if wrong := _wrong(task, fetched, one):
                return wrong
        return runs[0]
    finally:
        for oracle_case in made:
            oracle.forget(oracle_case)


def _of_set(run: CaseRun, fetched: FetchedSet, oracle_case: OracleCase) -> CaseRun:
    folder = run.folder / fetched.folder
    return replace(run, oracle_case=oracle_case, folder=folder, report=CaseReport())


def _require_correct(task: Task, run: CaseRun, right: set[str]) -> None:
    """Raises BadInput where the baseline's results of a set are wrong."""
    run = replace(run, folder=run.folder / "baseline")
    content = _hash_of(task, run)
    if content in right:
        return
    verdict = compare_written(task, run)
    if isinstance(verdict, Wrong):
        raise BadInput(
            f"the baseline of {task.name} is wrong on inputs like those of timed case"
            f" {run.oracle_case.case.label}, so nothing can be compared with it:"
            f" {verdict.argument}{list(verdict.index)} is {verdict.got:.6g},"
            f" expected {verdict.expected:.6g}; correct it or the task's tolerance"
        )
    right.add(content)


def _hash_of(task: Task, run: CaseRun) -> str:
    """Hash of the results, and of the folder of those expected, which is named by the case."""
    digest = sha256(str(run.oracle_case.folder).encode())
    for arg in task.args:
        if arg.written:
            content, changed = run.after(arg)
            digest.update(np.ascontiguousarray(content).data)
            digest.update(changed.tobytes())
    return digest.hexdigest()


def _wrong(task: Task, fetched: FetchedSet, run: CaseRun) -> Wrong | None:
    verdict = compare_written(task, run)
    if not isinstance(verdict, Wrong):
        return None
    note = "; ".join(filter(None, [verdict.note, HOW_TEXT[fetched.mode]]))
    return verdict.model_copy(update={"note": note})


def _touched(run: CaseRun, argument: str) -> Wrong:
    """A timed launch changed what it may not."""
    return Wrong(
        case=run.oracle_case.case,
        argument=argument,
        reason="write_outside",
        index=(),
        expected=float("nan"),
        got=float("nan"),
        bad=1,
        total=max(1, run.report.compared),
        note="bytes next to the argument, or in a read-only argument, changed during timing",
    )
