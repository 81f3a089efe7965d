"""Explains an evaluation gate by gate: which ran, what each checked, and what none can rule out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from astra_chat.tools.descriptions import never_launched
from astra_chat.tools.evaluation import CheckRecord, Evaluation
from astra_chat.tools.profiling.ncu_agreement import agreement
from astra_chat.tools.task.folder import Dim, Task
from astra_chat.tools.timing.verdict import MIN_GAIN, NO_REGRESSION
from astra_chat.tools.types import Correct, DTypeName, MeasuredTime, StepName, Timed
from astra_chat.tools.wording import counted

State = Literal["passed", "failed", "within the check", "not reached", "not asked for"]
ORDER: tuple[StepName, ...] = (
    "guard",
    "build",
    "audit",
    "plan",
    "check",
    "sanitize",
    "time",
    "profile",
)
PURPOSE: dict[StepName, str] = {
    "guard": "scanned the source as C++ tokens: includes, calls and inline assembly",
    "build": "compiled it with the task's flags, as the baseline was",
    "audit": "inspected the object file for definitions, imports, code that runs when it is"
    " loaded, and state kept between calls",
    "plan": "recorded what its launcher launches, several times with different addresses, in a"
    " separate process without a GPU; from here on, only these launches are run",
    "check": "ran it and compared its outputs with a float64 reference",
    "sanitize": "ran it under memory, race, initialization and barrier checkers, compared its"
    " outputs there too, and checked for races between blocks on the virtual GPU",
    "time": "timed it alternately with the baseline",
    "profile": "found the bottleneck",
}


ALSO_COMPARED = (
    "the outputs of timed launches were compared with the reference, and their errors with the"
    " baseline's"
)
VERIFIED = (
    "each set of buffers had its own inputs; after the last replay, all results were compared"
    " with the baseline's on the GPU, and those that differed, plus a random 5 %, with the"
    " reference; the verdict depends on the L2-cold times only"
)


OWN_SANITIZER = (
    "the virtual GPU checks every access while it runs the kernel: bounds, alignment, races"
    " within and between blocks, divergent barriers; a finding ends the check with the outcome"
    " 'unsafe'"
)
ESTIMATED = "estimated its time and the baseline's from counters and a model of the GPU"
RULE = (
    f"a candidate is accepted if the 95 % interval of the weighted mean begins above {MIN_GAIN:g}"
    f" and no case's interval begins below {NO_REGRESSION:g}; each interval is at least as wide"
    " as the apparent gain of the baseline over itself (A/A); a time below the physical limit, or"
    " far below what the host's clock shows, is refused"
)


@dataclass(frozen=True)
class GateStory:
    """One gate."""

    gate: StepName
    state: State
    saw: tuple[str, ...]
    """Its purpose, then its findings, a sentence each."""


def explain(evaluation: Evaluation, task: Task) -> tuple[GateStory, ...]:
    """All gates in their order."""
    ran = [step.name for step in evaluation.steps]
    good = isinstance(evaluation.outcome, Correct | Timed)
    stories = []
    for gate in ORDER:
        if gate == "plan" and gate not in ran and "check" in ran:
            continue  # of before there were launch plans
        if gate in ran:
            state: State = "passed" if good or gate != ran[-1] else "failed"
        elif gate == "sanitize" and evaluation.device.kind == "virtual" and "check" in ran:
            state = "within the check"
        elif good or gate == "sanitize":
            state = "not asked for"
        else:
            state = "not reached"
        saw: tuple[str, ...] = ()
        if state == "within the check":
            saw = (OWN_SANITIZER,)
        elif gate in ran:
            saw = tuple(_saw(gate, evaluation, task))
        stories.append(GateStory(gate, state, saw))
    return tuple(stories)


def _saw(gate: StepName, evaluation: Evaluation, task: Task) -> Iterator[str]:
    """The purpose of a gate that ran, and what it found."""
    estimated = gate == "time" and evaluation.device.kind == "virtual"
    yield ESTIMATED if estimated else PURPOSE[gate]
    if gate == "guard":
        yield f"required launcher: {task.entry}"
    if gate == "build":
        yield f"flags: {' '.join(task.flags)}"
    if gate == "plan" and evaluation.evidence:
        yield from (f"{p.case.label}: {p.launches}" for p in evaluation.evidence.plans)
    if gate == "check" and evaluation.check:
        yield from _check(evaluation, evaluation.check, task)
    if gate == "time":
        yield from _time(evaluation)


def not_ruled_out(evaluation: Evaluation, task: Task) -> tuple[str, ...]:
    """What all gates together cannot exclude, on this device and with the steps that ran; empty for
    a candidate that failed one."""
    if not isinstance(evaluation.outcome, Correct | Timed):
        return ()
    sentences = [
        "an error in the contract or in reference.py, by which everything is judged",
        "errors that look like rounding: those within the tolerance and at most"
        f" {task.oracle_ratio:g} times the baseline's own",
    ]
    if evaluation.trust:
        sentences.append(f"what its own process may have made up: {evaluation.trust}")
    record = evaluation.check
    if record:
        tried = record.cases
        sentences.append(
            f"a fault at extents that were not tried: {tried:,} cases were run, but"
            f" {_domain(task):,} shapes are valid, each with arbitrary contents"
        )
    if evaluation.device.kind == "virtual":
        sentences += [
            "faults that occur only on real hardware: blocks ran one after the other in a fixed"
            " order, so an incorrect memory order between blocks that use fences and atomics"
            " goes unnoticed",
            "reads of uninitialized local memory that do not affect a result",
        ]
    else:
        sentences.append(
            "a race that did not occur in these runs: it may appear only with different timing"
            " or on another GPU"
        )
        if not any(step.name == "sanitize" for step in evaluation.steps):
            sentences.append(
                "out-of-bounds reads that change no result: the sanitizers did not run (they run"
                " only on finalists)"
            )
    if isinstance(evaluation.outcome, Timed):
        sentences.append(
            "a different ratio at clocks, temperatures or loads other than those measured, or in"
            " another process: the interval covers only the blocks of one process"
            if evaluation.outcome.basis == "measured"
            else (
                "a kernel that is slower on a GPU: nothing was measured, and estimates can be wrong"
            )
        )
    else:
        sentences.append("anything about its speed: nothing was timed")
    return tuple(sentences)


def _check_of_ranks(evaluation: Evaluation, record: CheckRecord) -> list[str]:
    """What the check of a kernel over several GPUs did (ranks/checks.py)."""
    groups = [step.note for step in evaluation.steps if step.name == "check" and step.note]
    stops = (
        "in some calls, one rank stopped several times in the middle of its kernel while its peers"
        " ran ahead"
        if evaluation.device.kind == "virtual"
        else "before three calls in ten, one rank was up to 2 ms late, on its GPU or on its host"
    )
    return [
        f"{'; '.join(groups)}: each rank ran in its own process, with no pause between the"
        " calls of a burst",
        f"{counted(record.elements, 'element')} were compared one by one on their rank; results"
        " that must be alike were compared between ranks, bit for bit",
        f"from the task and the tester: {counted(len(record.visible), 'case')}; drawn at random"
        f" after the build: {counted(len(record.hidden), 'case')}, {_hidden(record)}",
        stops,
        "a rank's own input and the bytes after its shared memory were compared after each burst",
        "signals in the PTX were examined: their scope, and the ordering that they guarantee",
    ]


def _check(evaluation: Evaluation, record: CheckRecord, task: Task) -> list[str]:
    if task.ranks is not None:
        return _check_of_ranks(evaluation, record)
    sentences = [
        f"{counted(record.calls, 'call')} on {counted(record.cases, 'case')}:"
        f" {counted(record.elements, 'element')} were compared one by one, NaN and infinity first,"
        " with shapes and dtypes taken from the buffers",
        f"known before the build: {counted(len(record.visible), 'case')}, from the tester, and"
        f" from the task with numbers that the judge drew (seed {_seed(record)})",
        f"drawn from the whole valid domain before the build: {counted(record.shared, 'case')},"
        " used for all candidates of this judge",
        f"drawn at random after the build: {counted(len(record.hidden), 'case')},"
        f" {_hidden(record)}",
        "before each call, outputs were filled with NaNs or, in every third call, with ordinary"
        " numbers, so that unwritten elements would show",
        f"{record.read_bytes:,} bytes of read-only arguments were compared with their"
        " contents before the call",
        _outside(evaluation, record),
        *_repeats(evaluation, record),
        *_swept(record),
        *_rows(record),
        *_precision(evaluation, record),
        "trivial outputs (zeros, a constant, an unchanged input, the expected output multiplied by"
        " 1.05) were shown to fail on this task's cases",
    ]
    sentences += [f"drawn but not used: {text}" for text in record.left_out]
    sentences += [f"not covered by any call: {text}" for text in record.uncovered]
    sentences += [
        f"drawn for kernels that no other case launches: {c.label}" for c in record.sought
    ]
    sentences += [f"warning: {text}" for text in (*record.warnings, *never_launched(record))]
    if isinstance(evaluation.outcome, Correct | Timed):
        outcome = evaluation.outcome
        correct = outcome.correct if isinstance(outcome, Timed) else outcome
        sentences += [f"only a sample of the blocks ran: {text}" for text in correct.sampled]
    return sentences


def _time(evaluation: Evaluation) -> list[str]:
    """What was verified of timed launches, and what Nsight Compute's clock said, if it was
    asked."""
    notes = [step.note for step in evaluation.steps if step.name == "time" and step.note]
    if not isinstance(evaluation.outcome, Timed):
        return notes
    if evaluation.outcome.cases[0].basis == "estimated":
        return [ALSO_COMPARED, *notes]
    return [
        *_measured(evaluation.outcome),
        RULE,
        ALSO_COMPARED,
        VERIFIED,
        *(agreement(evaluation.outcome.cases) or notes),
    ]


def _measured(timed: Timed) -> list[str]:
    """How times on a real GPU were measured."""
    cases = [case for case in timed.cases if isinstance(case, MeasuredTime)]
    blocks = [case.blocks for case in cases]
    weights = ", ".join(f"{case.case.label} {case.weight:g}" for case in cases)
    return [
        f"{min(blocks)} to {max(blocks)} blocks per case, in which the baseline and the"
        " candidate, built with the same flags, alternate in random order, in one process and"
        " with a cold L2; A/A at most"
        f" {max(case.noise for case in cases):.2%}",
        f"weights in the mean: {weights}",
    ]


def _seed(record: CheckRecord) -> str:
    seeds = sorted({case.seed for case in record.visible if case.seed})
    return ", ".join(str(seed) for seed in seeds) or "as stated"


def _hidden(record: CheckRecord) -> str:
    times = Counter(case.label for case in record.hidden)
    labels = (f"{label} ({n} times)" if n > 1 else label for label, n in times.items())
    return "; ".join(labels) or "none was reached"


def _outside(evaluation: Evaluation, record: CheckRecord) -> str:
    if evaluation.device.kind == "virtual":
        between = f"; {record.guard_bytes:,} bytes between rows were unchanged"
        return "every access was checked against the exact bounds of its argument" + (
            between if record.guard_bytes else ""
        )
    around = f"{record.guard_bytes:,} bytes before, after and between the rows of arguments"
    return f"{around} were unchanged"


def _swept(record: CheckRecord) -> list[str]:
    if not record.swept:
        return []
    return [
        f"{record.swept:,} more cases, drawn for all candidates of this judge, were compared with"
        " the baseline's results on the GPU; the oracle judged those that differed"
    ]


def _rows(record: CheckRecord) -> list[str]:
    if not record.rows:
        return []
    return [
        (
            f"{record.rows:,} rows of results had the same bits in another batch and at another"
            " position"
        )
    ]


def _repeats(evaluation: Evaluation, record: CheckRecord) -> list[str]:
    sentences = []
    if used := record.how.get("same_buffers"):
        sentences.append(
            f"{counted(used, 'call')} with other inputs at the same addresses gave no stale results"
        )
    if replayed := record.how.get("graph"):
        sentences.append(
            f"{counted(replayed, 'call')} captured as a CUDA graph and replayed on new inputs"
        )
    if paired := record.how.get("overlapped"):
        sentences.append(
            f"{counted(paired, 'call')} made while another call ran: calls share nothing"
        )
    outcome = evaluation.outcome
    correct = outcome.correct if isinstance(outcome, Timed) else outcome
    if record.repeats and isinstance(correct, Correct):
        bits = "deterministic" if correct.deterministic else "non-deterministic"
        sentences.append(f"{record.repeats} repeated calls: {bits}")
    if evaluation.device.kind == "cuda":
        sentences.append("calls ran on a separate stream, on which the inputs arrived late")
        sentences.append("the shared memory of every SM was filled with NaNs before each call")
    return sentences


def _precision(evaluation: Evaluation, record: CheckRecord) -> list[str]:
    error = record.worst_error
    if error is None:
        return []
    return [
        f"the rms error came closest to its limit on {error.case.label},"
        f" '{error.argument}': {error.candidate_ulps:.3g} ulp; the baseline's is"
        f" {error.baseline_ulps:.3g}, the limit {error.limit_ulps:.3g}",
        "the number of 16-bit results that differ from the nearest value is no larger than"
        " float32 arithmetic with a single rounding would cause",
    ]


def _domain(task: Task) -> int:
    """Legal shapes over all dtypes, as if there were no relations between dims."""
    return sum(
        math.prod(_extents(dim, kind.dtype) for dim in task.dims.values())
        for kind in task.combinations
    )


def _extents(dim: Dim, dtype: DTypeName) -> int:
    if dim.values:
        return sum(dim.allows(extent, dtype) for extent in dim.values)
    step = dim.step(dtype)
    return dim.max // step - -(-dim.min // step) + 1
