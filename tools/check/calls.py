"""Correctness check: outputs of each call against the float64 oracle, argument by argument."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compare import changed_beside, compare
from astra_chat.tools.check.error_norms import BaselineErrors, PrecisionSeen
from astra_chat.tools.check.same_rows import SameRows
from astra_chat.tools.evaluation import CheckRecord, ErrorNorm
from astra_chat.tools.known import NOTHING_KNOWN, KnownNumbers
from astra_chat.tools.run.case_run import CaseRun, bytes_between, looked_at
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import WatchedBytes
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import (
    ITEM_BYTES,
    Case,
    Correct,
    Crashed,
    DeviceKind,
    How,
    Unsafe,
    Wrong,
)
from astra_chat.tools.wording import counted

HOW_TEXT: dict[How, str] = {
    "fresh": "in fresh buffers",
    "same_buffers": "in buffers that previously held other inputs",
    "graph": "captured as a CUDA graph and replayed",
    "overlapped": "while another call ran",
}
ON_A_GPU: tuple[How, ...] = ("graph", "overlapped")
"""How two cases of each dtype are called besides, where there is a GPU."""
MAX_WARNINGS = 20
"""Most warnings that are kept: one fault often shows everywhere."""
MIN_ULPS = 1e-3
"""Below this error a baseline counts as exact: a ratio to it says nothing."""


@dataclass
class CheckProgress:
    """What a check has done so far; becomes its record."""

    calls: list[Call] = field(default_factory=list)
    elements: int = 0
    guard_bytes: int = 0
    read_bytes: int = 0
    repeats: int = 0
    swept: int = 0
    """Further cases whose results were compared with the baseline's on the device."""
    rows: int = 0
    """Rows whose bits were compared with those of the same row in another call."""
    same_bits: bool = True
    worst: float = 0.0
    worst_error: ErrorNorm | None = None
    sampled: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    """What the virtual GPU warned of, by kernel and source line."""
    precision: PrecisionSeen = field(default_factory=PrecisionSeen)
    uncovered: tuple[str, ...] = ()
    """Factors of the covering cases of which some combinations were not called, and why."""
    sought: tuple[Case, ...] = ()
    """Cases that were drawn for kernels of the candidate that no other case launches."""
    never_launched: tuple[str, ...] = ()
    """Kernels of the candidate that no call launched, but for these:"""
    left_as_is: tuple[str, ...] = ()
    """Such kernels whose device code is the baseline's."""
    failed: Call | None = None
    """The call that is looked at, or that ended the check."""
    _bits: dict[Path, bytes] = field(default_factory=dict)

    def add(self, task: Task, call: Call, run: CaseRun) -> None:
        """Count what was looked at, and compare the bits with those of an earlier such call; not of
        outputs that have a canonical form, parts of which mean nothing."""
        self.calls.append(call)
        case = call.oracle_case.case
        for arg in task.args:
            if run.is_unchanged(arg):
                self.read_bytes += arg.bytes_of(case)
                self.guard_bytes += bytes_between(arg, case)
                continue
            content, guards = run.after(arg)
            self.guard_bytes += len(guards)
            self.read_bytes += len(content) if arg.constant else 0
            if arg.written:
                covered = run.coverage(arg)
                count = len(content) if covered is None else np.count_nonzero(covered)
                self.elements += int(count) // ITEM_BYTES[arg.dtype_of(case)]
        folder, found = call.oracle_case.folder, run.digest(task.args)
        if folder in self._bits and not call.oracle_case.has_canonical:
            self.repeats += 1
            self.same_bits &= self._bits[folder] == found
        else:
            self._bits[folder] = found
        if note := run.report.sampled:
            self.sampled[case.label] = note

    def warn(self, run: CaseRun) -> None:
        """Keep what the virtual GPU warned of, once a place."""
        for where, words in run.report.warnings.items():
            self.warnings.setdefault(where, f"{words} on {run.oracle_case.case.label}")

    def nearest(self, error: ErrorNorm | None) -> None:
        """Keep the error norm that came nearest to its limit."""
        if error and (self.worst_error is None or _share(error) > _share(self.worst_error)):
            self.worst_error = error

    def correct(self) -> Correct:
        cases = {call.oracle_case.folder: call for call in self.calls}.values()
        return Correct(
            cases=len(cases),
            hidden=sum(call.hidden for call in cases),
            sampled=tuple(f"{label}: {note}" for label, note in self.sampled.items()),
            worst=self.worst,
            error_ratio=_ratio(self.worst_error) if self.worst_error else None,
            deterministic=self.same_bits if self.repeats else None,
        )

    def record(
        self,
        task: Task,
        left_out: Sequence[str] = (),
        drawn: Sequence[Case] = (),
        known: KnownNumbers = NOTHING_KNOWN,
    ) -> CheckRecord:
        """`drawn`: the hidden cases that no other check has; `known`: what some were drawn for."""
        last = self.failed.oracle_case.case if self.failed and self.failed.hidden else None
        cases = {call.oracle_case.folder: call for call in self.calls}.values()
        hidden = [call.oracle_case.case for call in cases if call.hidden]
        own = [case for case in hidden if case in drawn]
        return CheckRecord(
            visible=tuple(call.oracle_case.case for call in cases if not call.hidden),
            hidden=tuple(own),
            known=known,
            failed=last if last and task.is_small(last) else None,
            shared=len(hidden) - len(own),
            left_out=tuple(left_out),
            calls=len(self.calls),
            how=dict(Counter(call.how for call in self.calls)),
            elements=self.elements,
            guard_bytes=self.guard_bytes,
            read_bytes=self.read_bytes,
            repeats=self.repeats,
            swept=self.swept,
            rows=self.rows,
            uncovered=self.uncovered,
            sought=self.sought,
            never_launched=self.never_launched,
            left_as_is=self.left_as_is,
            worst_error=self.worst_error,
            band_shares=self.precision.shares,
            warnings=tuple(self.warnings.values())[:MAX_WARNINGS],
        )


def check(
    runner: Runner,
    build: Build,
    calls: Sequence[Call],
    baseline_errors: BaselineErrors | None = None,
    seen: CheckProgress | None = None,
    on_case: Callable[[int], None] = lambda _: None,
    *,
    whole: bool = True,
    rows: SameRows | None = None,
) -> Correct | Wrong | Failure:
    """Make every call and compare; the first failure ends it. Small cases should come first.

    `baseline_errors` knows the baseline's own errors; `seen` is filled as the check goes. What all
    calls together say is looked at unless more are to come: where they are not the `whole`.
    `rows` compares rows that calls share.
    """
    seen, task = seen or CheckProgress(), runner.task
    runs = looked_at(
        task, runner.kept_runs(build, calls, "check"), partial(_looked, task, baseline_errors)
    )
    with closing(runs):
        for call, (run, found) in zip(calls, runs, strict=False):  # a failure ends the runs early
            seen.failed = call
            if not isinstance(run, CaseRun):
                return _in_context(run, call, seen)
            assert found is not None, "every run was checked"
            seen.warn(run)
            if isinstance(found.verdict, Wrong):
                return _in_context(found.verdict, call, seen)
            if stale := read_result(task, run):
                return stale
            seen.add(task, call, run)
            seen.worst = max(seen.worst, found.verdict)
            seen.precision.merge(found.precision)
            if isinstance(found.error, Wrong):
                return _noted(found.error, [passed(seen.calls[:-1])])
            seen.nearest(found.error)
            if rows and (varies := rows.look(run)):
                return varies
            seen.failed = None
            on_case(len(seen.calls))
    leans = seen.precision.leans(baseline_errors.bias) if baseline_errors and whole else None
    return leans or seen.correct()


@dataclass(frozen=True)
class _LookedAt:
    """What is found in one run, whatever was found in others."""

    verdict: float | Wrong
    error: ErrorNorm | Wrong | None = None
    precision: PrecisionSeen = field(default_factory=PrecisionSeen)


def _looked(task: Task, baseline_errors: BaselineErrors | None, run: CaseRun) -> _LookedAt:
    if baseline_errors and (same := baseline_errors.same(run)):
        wrong = changed_beside(task, run)
        return _LookedAt(wrong) if wrong else _LookedAt(same.worst, same.error, same.precision)
    verdict, precision = compare(task, run), PrecisionSeen()
    if isinstance(verdict, Wrong) or baseline_errors is None:
        return _LookedAt(verdict)
    error = baseline_errors.judge(run, partial(precision.add, task))
    return _LookedAt(verdict, error, precision)


def read_result(task: Task, run: CaseRun) -> Unsafe | None:
    """A read of an argument that is only written, before it is: it finds what an earlier call left,
    which no comparison need show. Where only some blocks ran, others may have written it."""
    results = {arg.name for arg in task.args if arg.access == "write"}
    for where, what in {} if run.report.sampled else run.report.warnings.items():
        if where.rpartition(", ")[2] in results:
            read, _, place = what.partition(" (kernel ")
            read += ": the contract says that it is only written, so it may hold anything before"
            return Unsafe(case=run.oracle_case.case, what=read, where=f"kernel {place[:-1]}")
    return None


def _in_context(outcome: Wrong | Failure, call: Call, seen: CheckProgress) -> Wrong | Failure:
    """Say so where the same inputs came out right before, or the buffers held others."""
    words = []
    if any(before.oracle_case.folder == call.oracle_case.folder for before in seen.calls):
        words.append("an earlier call on the same inputs was correct")
    if call.how != "fresh":
        words.append(f"called {HOW_TEXT[call.how]}")
    if isinstance(outcome, Wrong):
        return _noted(outcome, [*words, passed(seen.calls)])
    if isinstance(outcome, Crashed):
        return outcome.model_copy(update={"message": "; ".join([outcome.message, *words])})
    return outcome


def passed(calls: Sequence[Call]) -> str:
    """Returns which kinds of cases passed before a wrong one: "31 cases passed before (20 normal, 6
    special; 4 with padded rows)"; "" if there were none."""
    cases = {call.oracle_case.folder: call.oracle_case.case for call in calls}.values()
    if not cases:
        return ""
    families = Counter(case.values for case in cases).most_common()
    kinds = [", ".join(f"{count} {family}" for family, count in families)]
    if padded := sum(bool(case.pad or case.pads) for case in cases):
        kinds.append(f"{padded} with padded rows")
    if shifted := sum(bool(case.offset or case.offsets) for case in cases):
        kinds.append(f"{shifted} off a 256-byte boundary")
    return f"{counted(len(cases), 'case')} passed before ({'; '.join(kinds)})"


def _noted(wrong: Wrong, words: Sequence[str]) -> Wrong:
    return wrong.model_copy(update={"note": "; ".join(filter(None, [wrong.note, *words]))})


def _share(error: ErrorNorm) -> float:
    return error.candidate_ulps / error.limit_ulps


def _ratio(error: ErrorNorm) -> float:
    """Error of the candidate over the baseline's; 1 where they are equal."""
    if error.candidate_ulps == error.baseline_ulps:
        return 1.0
    return error.candidate_ulps / max(error.baseline_ulps, MIN_ULPS)


# Hidden cases as calls, and some of them called again: on other numbers at the same addresses, and
# on the same numbers at others.
#
# What a candidate remembers by address, by shape or by call shows as a wrong result, what differs
# between equal calls as other bits.

REPEATS: dict[DeviceKind, int] = {"virtual": 1, "cuda": 8}
"""Further calls on the same inputs, of one case a dtype. The virtual GPU runs blocks in one order,
so there a repeat shows what is kept between calls, but no race."""
MORE_REPEATS: dict[DeviceKind, int] = {"virtual": 0, "cuda": 4}
"""Up to so many are added, a number drawn at random: nobody knows which call is the last."""


def first_of_each_dtype(cases: Sequence[Case]) -> list[Case]:
    """The first drawn case of each combination of dtypes whose values are the usual ones."""
    first: dict[tuple[str, ...], Case] = {}
    for case in cases:
        if case.values == "normal" and not case.families:
            first.setdefault((case.dtype, *case.types.values()), case)
    return list(first.values())


def with_repeats(
    task: Task,
    hidden: Sequence[OracleCase],
    pairs: Sequence[tuple[Case, Case]],
    kind: DeviceKind,
    rng: random.Random,
    first_turn: int,
) -> list[Call]:
    """Calls of the hidden cases, small ones first, then those of pairs that are repeated. The
    second of each pair has no call of its own. Their turns count from the first."""
    known = {t.case.key: t for t in hidden}
    keys = [(first.key, second.key) for first, second in pairs]
    seconds = {second for _, second in keys}
    calls = [Call(t, hidden=True) for key, t in known.items() if key not in seconds]
    calls.sort(key=lambda call: task.least_bytes(call.oracle_case.case))
    for first, second in keys:
        if first in known and second in known:
            calls += _repeats(known[first], known[second], kind, rng)
    return [replace(call, turn=turn) for turn, call in enumerate(calls, first_turn)]


def _repeats(
    first: OracleCase, second: OracleCase, kind: DeviceKind, rng: random.Random
) -> list[Call]:
    """Calls of two cases that differ in their numbers only."""
    calls = [
        Call(first, hidden=True),
        Call(second, "same_buffers", hidden=True),
        Call(second, hidden=True),
        Call(first, "same_buffers", hidden=True),
    ]
    if kind == "cuda":
        calls += [Call(one, how, hidden=True) for how in ON_A_GPU for one in (first, second)]
    times = REPEATS[kind] - 1 + rng.randint(0, MORE_REPEATS[kind])
    return calls + [Call(first, hidden=True)] * times


# Which statement of a candidate stored a wrong result: help for its author, on which no verdict
# rests.
#
# The call is run once more on the virtual GPU, which knows each instruction's source line and
# watches the bytes of the element.

MOST_BYTES = 2**20
"""Most bytes that a case may move: the NumPy engine then runs all of its blocks within seconds."""
OF_ELEMENTS = frozenset(("value", "nan_pattern", "input_changed"))
"""Reasons whose index is that of an element which a kernel has stored."""


def with_last_store(runner: Runner, candidate: Build, oracle: Oracle, wrong: Wrong) -> Wrong:
    """`wrong` with the place of the last store to its element in the note; as it is where that
    cannot be said."""
    task = runner.task
    if wrong.reason not in OF_ELEMENTS or task.least_bytes(wrong.case) > MOST_BYTES:
        return wrong
    numpy = runner.on_virtual_gpu() if runner.device.kind == "cuda" else runner
    numpy = replace(numpy, engine="numpy")
    built = runner.virtual_build(candidate)
    if not isinstance(built, Build):
        return wrong
    (oracle_case,) = oracle.oracle_cases([wrong.case], numpy.stop)
    arg = next(arg for arg in task.args if arg.name == wrong.argument)
    call = Call(oracle_case, watched=_bytes_of(arg, wrong.case, wrong.index))
    run = next(numpy.run_calls(built, [call], "check"), None)
    if not isinstance(run, CaseRun) or not run.report.stored_by:
        return wrong
    note = f"this element was last written at {run.report.stored_by}"
    return wrong.model_copy(update={"note": "; ".join(filter(None, [wrong.note, note]))})


def _bytes_of(arg: Arg, case: Case, index: tuple[int, ...]) -> WatchedBytes:
    item = ITEM_BYTES[arg.dtype_of(case)]
    at = sum(i * stride for i, stride in zip(index, arg.strides_of(case), strict=True))
    return WatchedBytes(argument=arg.name, start=at * item, size=item)
