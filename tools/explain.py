"""An evaluation told gate by gate: which ran, what each saw, and what none of them can rule out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from astra_chat.tools.profiling.ncu_agreement import agreement
from astra_chat.tools.task.folder import Dim, Task
from astra_chat.tools.timing.verdict import MIN_GAIN, MOST_HOST_US, NO_REGRESSION
from astra_chat.tools.types import (
    CheckRecord,
    Correct,
    Evaluation,
    MeasuredTime,
    StepName,
    Timed,
)

State = Literal["passed", "failed", "within the check", "not reached", "not asked for"]
ORDER: tuple[StepName, ...] = ("guard", "build", "audit", "check", "sanitize", "time", "profile")
PURPOSE: dict[StepName, str] = {
    "guard": "read the source as C++ tokens: what it includes, calls and spells out in assembly",
    "build": "compiled it with the task's flags, the same as the baseline's",
    "audit": "read the built object: what it defines, imports, runs when loaded and keeps between"
    " calls",
    "check": "ran it and compared what it left behind with a float64 reference",
    "sanitize": "ran it under memory, race, initialisation and barrier checkers, compared what it"
    " wrote there, and asked the virtual GPU for races between blocks",
    "time": "timed it beside the baseline",
    "profile": "looked for what limits it",
}


ALSO_COMPARED = (
    "what timed launches wrote was compared with the reference, and held against the baseline's own"
    " errors"
)
VERIFIED = (
    "of a cold replay drawn by chance up to a third of the launches, of warm ones and of those with"
    " events round each a few: the L2-cold figures decide, the others are told beside them"
)


OWN_SANITIZER = (
    "the virtual GPU watches as it runs: bounds, alignment, races within and between blocks,"
    " barriers that not all reach; a finding ends the check as 'unsafe'"
)
ESTIMATED = "estimated its time and the baseline's, from what was counted and a model of the GPU"
RULE = (
    f"accepted where the 95 % interval of the weighted mean begins above {MIN_GAIN:g} and no case's"
    f" below {NO_REGRESSION:g}; no interval is narrower than what the baseline seemed to gain over"
    " itself (A/A); a time below the physical limit, or far below the host's clock, is refused; a"
    f" call that takes {MOST_HOST_US:g} us more than the baseline's with its launch is not accepted"
)


@dataclass(frozen=True)
class GateStory:
    """One gate."""

    gate: StepName
    state: State
    saw: tuple[str, ...]
    """What it is for, then what it saw, a sentence each."""


def explain(evaluation: Evaluation, task: Task) -> tuple[GateStory, ...]:
    """All gates in their order."""
    ran = [step.name for step in evaluation.steps]
    good = isinstance(evaluation.outcome, Correct | Timed)
    stories = []
    for gate in ORDER:
        if gate in ran:
            state: State = "passed" if good or gate != ran[-1] else "failed"
        elif gate == "sanitize" and evaluation.device.kind == "virtual" and "check" in ran:
            state = "within the check"
        elif good or gate == "sanitize":
            state = "not asked for"
        else:
            state = "not reached"
        estimated = gate == "time" and evaluation.device.kind == "virtual"
        saw: tuple[str, ...] = (ESTIMATED if estimated else PURPOSE[gate],) if gate in ran else ()
        if state == "within the check":
            saw += (OWN_SANITIZER,)
        if gate == "guard" and gate in ran:
            saw += (f"the launcher that the task asks for: {task.entry}",)
        if gate == "build" and gate in ran:
            saw += (f"flags: {' '.join(task.flags)}",)
        if gate == "check" and evaluation.check:
            saw += tuple(_check(evaluation, evaluation.check, task))
        if gate == "time":
            saw += tuple(_time(evaluation))
        stories.append(GateStory(gate, state, saw))
    return tuple(stories)


def not_ruled_out(evaluation: Evaluation, task: Task) -> tuple[str, ...]:
    """What all gates together cannot exclude, on this device and with what ran; nothing to say of
    a candidate that failed one."""
    if not isinstance(evaluation.outcome, Correct | Timed):
        return ()
    told = [
        "an error in the contract or in reference.py: everything is judged by these",
        f"errors that pass for rounding: within the tolerance, and at most"
        f" {task.oracle_ratio:g} times the baseline's own",
    ]
    record = evaluation.check
    if record:
        tried = len(record.visible) + len(record.hidden)
        told.append(
            f"a fault at extents that were not tried: {tried:,} cases of {_domain(task):,} legal"
            " shapes, times all contents"
        )
    if evaluation.device.kind == "virtual":
        told += [
            "anything that only real hardware shows: blocks ran in one order, one after the other,"
            " so a wrong memory order between blocks that use fences and atomics does not show",
            "reads of local memory that nobody wrote, where they do not reach a result",
        ]
    else:
        told.append("a race that did not show: it may need another moment, or another GPU")
        if not any(step.name == "sanitize" for step in evaluation.steps):
            told.append(
                "reads outside an argument that stay without effect: the sanitizers did not run"
                " (they run on finalists)"
            )
    if isinstance(evaluation.outcome, Timed):
        told.append(
            "other clocks, neighbours and temperatures than those of the measurement, and what"
            " differs from process to process: the interval is over the blocks of one"
            if evaluation.outcome.basis == "measured"
            else "that it is slower on a GPU: nothing was measured, and an estimate can err"
        )
    else:
        told.append("anything about its speed: nothing was timed")
    return tuple(told)


def _check(evaluation: Evaluation, record: CheckRecord, task: Task) -> list[str]:
    cases = len(record.visible) + len(record.hidden)
    told = [
        f"{record.calls:,} calls on {cases} cases, {record.elements:,} elements compared one by"
        " one, NaN and infinity first; shapes and dtypes are the buffers' own",
        f"{len(record.visible)} cases are known: of the task and of the tester, the task's with"
        f" numbers that the judge drew (seed {_seed(record)})",
        f"{len(record.hidden)} cases were drawn after the build: {_hidden(record)}",
        "outputs began as NaNs, in every third call as ordinary numbers, of another pattern each"
        " time: what is left unwritten shows",
        f"{record.read_bytes:,} bytes of arguments that may only be read: compared with what they"
        " were",
        _outside(evaluation, record),
        *_repeats(evaluation, record),
        *_precision(evaluation, record),
        "before all that: zeros, a constant, an input passed through and the truth 5 % off fail on"
        " this task's cases",
    ]
    told += [f"drawn, but no case to judge by: {words}" for words in record.left_out]
    told += [f"warning: {words}" for words in record.warnings]
    if isinstance(evaluation.outcome, Correct | Timed):
        outcome = evaluation.outcome
        correct = outcome.correct if isinstance(outcome, Timed) else outcome
        told += [f"only a sample of blocks ran: {words}" for words in correct.sampled]
    return told


def _time(evaluation: Evaluation) -> list[str]:
    """What became of what timed launches wrote; what a second clock said, or why nobody asked."""
    notes = [step.note for step in evaluation.steps if step.name == "time" and step.note]
    if not isinstance(evaluation.outcome, Timed):
        return notes
    if evaluation.outcome.cases[0].basis == "estimated":
        return [ALSO_COMPARED, *notes]
    return [
        *_measured(evaluation.outcome), RULE, ALSO_COMPARED, VERIFIED,
        *(agreement(evaluation.outcome.cases) or notes),
    ]  # fmt: skip


def _measured(timed: Timed) -> list[str]:
    """How the figures of a real GPU came about."""
    cases = [case for case in timed.cases if isinstance(case, MeasuredTime)]
    blocks = [case.blocks for case in cases]
    weights = ", ".join(f"{case.case.label} {case.weight:g}" for case in cases)
    return [
        f"{min(blocks)} to {max(blocks)} blocks a case of baseline and candidate in turn, order"
        " drawn by chance, both built with the same flags, in one process; L2 cold; A/A at most"
        f" {max(case.noise for case in cases):.2%}",
        f"weights in the mean: {weights}",
    ]


def _seed(record: CheckRecord) -> str:
    seeds = sorted({case.seed for case in record.visible if case.seed})
    return ", ".join(str(seed) for seed in seeds) or "as stated"


def _hidden(record: CheckRecord) -> str:
    times = Counter(case.label for case in record.hidden)
    labels = (f"{label} ({n} times)" if n > 1 else label for label, n in times.items())
    return "; ".join(labels) or "none got its turn"


def _outside(evaluation: Evaluation, record: CheckRecord) -> str:
    if evaluation.device.kind == "virtual":
        between = f"; {record.guard_bytes:,} bytes between rows unchanged"
        return "every access was held to the exact bounds of its argument" + (
            between if record.guard_bytes else ""
        )
    return f"{record.guard_bytes:,} bytes before, after and between the rows of arguments unchanged"


def _repeats(evaluation: Evaluation, record: CheckRecord) -> list[str]:
    told = []
    if used := record.how.get("same_buffers"):
        told.append(f"{used} calls on other numbers at the same addresses: nothing remembered")
    if replayed := record.how.get("graph"):
        told.append(f"{replayed} calls captured as a CUDA graph, then replayed on fresh inputs")
    outcome = evaluation.outcome
    correct = outcome.correct if isinstance(outcome, Timed) else outcome
    if record.repeats and isinstance(correct, Correct):
        bits = "the same bits every time" if correct.deterministic else "not always the same bits"
        told.append(f"{record.repeats} repeated calls: {bits}")
    if evaluation.device.kind == "cuda":
        told.append("calls were on a stream of their own, on which the inputs arrived late")
        told.append("shared memory of every SM held NaNs before each call")
    return told


def _precision(evaluation: Evaluation, record: CheckRecord) -> list[str]:
    error = record.worst_error
    if error is None:
        return []
    return [
        f"rms error beside the baseline's own: nearest to its limit on {error.case.label},"
        f" '{error.argument}': {error.candidate_ulps:.3g} ulp, the baseline"
        f" {error.baseline_ulps:.3g}, limit {error.limit_ulps:.3g}",
        "16-bit results: no more of them off the nearest value than float32 and one rounding give",
    ]


def _domain(task: Task) -> int:
    """Legal shapes over all dtypes."""
    return sum(
        math.prod(_extents(dim, dim.step(dtype)) for dim in task.dims.values())
        for dtype in task.dtypes
    )


def _extents(dim: Dim, step: int) -> int:
    return dim.max // step - -(-dim.min // step) + 1
