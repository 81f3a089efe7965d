"""Validates a task (`tasks check`): its baseline must be correct, trivial outputs must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from astra_chat.tools.build.nvcc import Build, build, build_all, require_build
from astra_chat.tools.check.causes import Explained, explained
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.drawn_dims import least, legal_near
from astra_chat.tools.check.hidden_cases import BUDGET_BYTES, draw, unique
from astra_chat.tools.check.kernels import kernels_not_launched
from astra_chat.tools.check.launch_limits import largest_calls
from astra_chat.tools.check.lost_cases import Failed, unlaunched
from astra_chat.tools.check.trivial_outputs import Trial, trials, undetected
from astra_chat.tools.descriptions import describe, kernels_text
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutant_runs import Scorer
from astra_chat.tools.mutation.scores import SuiteScore
from astra_chat.tools.policy.ptx_audit import has_atomics
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.types import Case, Device, Wrong, is_float
from astra_chat.tools.wording import counted

ORDERED = (
    "the baseline's result depends on the order of atomics, which no GPU guarantees, but"
    " reference.py accepts only one order; in the reverse order, the baseline is"
)
UNDECIDED = (
    'if several results are valid, say so: judged = { by = "accept" } and accept(), or canonical(),'
    " which sorts what has no order and sets what the kernel may leave unwritten to 0"
    ' (docs/own-kernel.md, "A result that is not the only one")'
)


# The ends of a contract: calls with each dim at its least and at its greatest extent.
#
# What a baseline cannot launch there is outside what it can do, so the contract is too wide. Small
# calls are run; of large ones the launches are recorded, which needs no memory.


@dataclass(frozen=True)
class Ends:
    """The baseline at the ends of its contract."""

    calls: int = 0
    run: int = 0
    """Calls whose results were compared with the oracle's; of the others only the launches were
    recorded."""
    failed: tuple[Failed, ...] = ()

    def line(self) -> str:
        """What was tried, in one line."""
        good = self.calls - len(self.failed)
        calls, recorded = counted(self.calls, "call"), self.calls - self.run
        only = f" ({recorded} of them were too large to run: only their launches were checked)"
        line = f"minimum and maximum of every dim: {good} of {calls} correct"
        return line + only * bool(recorded)


def ends(task: Task) -> list[Case]:
    """Returns calls of each combination of dtypes: all dims at their least, each alone at its least
    beside a check case's, and each at its greatest."""
    cases = [kind.case(least(task, kind)) for kind in task.combinations]
    for kind in task.combinations:
        usual = next((case for case in task.check if Combination.of(case) == kind), None)
        for name, dim in task.dims.items() if usual else ():
            assert usual is not None
            wanted = {**usual.dims, name: dim.nearest(dim.min, kind.dtype)}
            dims = legal_near(task, kind, wanted, (name,))
            cases += [kind.case(dims)] if dims else []
    return [case for case in unique([*cases, *largest_calls(task)]) if task.allows(case)]


def at_ends(
    checker: Checker, runner: Runner, oracle: Oracle, built: Build, known: Sequence[Case]
) -> Ends:
    """The baseline on these calls, but for those that are `known`."""
    cases = [case for case in ends(runner.task) if case not in known]
    small = [case for case in cases if runner.task.least_bytes(case) <= BUDGET_BYTES["virtual"]]
    failed = unlaunched(runner, built, [case for case in cases if case not in small])
    failed += checker.learn(oracle.oracle_cases(small, runner.stop))
    return Ends(len(cases), len(small), tuple(failed))


@dataclass(frozen=True)
class TaskReport:
    """The result of judging a task's own baseline."""

    cases: int
    """The task's cases, with the seeds that it states."""
    failed: tuple[str, ...]
    """Cases that the baseline fails, how, and why."""
    not_tried: int
    """Further ones of the task's cases, after the baseline had failed several."""
    hidden: int
    hidden_not_tried: int
    hidden_failed: tuple[str, ...]
    """Drawn cases that the baseline fails: legal by the contract, so the contract is too wide, or
    reference and baseline say different things."""
    left_out: tuple[str, ...]
    """Drawn cases that it fails by the values of the inputs alone: special values may meet in ways
    that fast maths does not survive. No candidate is judged on such cases."""
    trials: tuple[Trial, ...]
    undetected: tuple[str, ...]
    """Trivial outputs that pass a whole family of values."""
    seed: str
    """Draws the same cases again."""
    disagreement: tuple[str, ...] = ()
    """What is wrong on the first case that the baseline fails, or fails when atomics come in
    another order, and what to do about it."""
    bugs: SuiteScore | None = None
    """Seeded bugs of the baseline that the check cases detect; None: not tried."""
    ends: Ends = field(default_factory=Ends)
    """Calls with each dim at its least and greatest."""
    unlaunched: tuple[str, ...] = ()
    """Kernels of the baseline that no case launches."""
    large_atol: tuple[str, ...] = ()
    """Tolerances that are large beside the results; the precision of a candidate is limited by the
    baseline's, too, so the task may be fit."""

    @property
    def fit(self) -> bool:
        not_tried = self.not_tried + self.hidden_not_tried
        wrong = self.failed or self.hidden_failed or self.ends.failed
        unscored = self.bugs is not None and not self.bugs.tells
        return not (self.disagreement or wrong or self.undetected or not_tried or unscored)

    def lines(self) -> list[str]:
        """The report as text."""
        stated = _of(self.cases, len(self.failed), "check cases", self.not_tried)
        unfit = len(self.hidden_failed) + len(self.left_out)
        drawn = _of(self.hidden, unfit, "drawn ones", self.hidden_not_tried)
        lines = [
            *self.disagreement,
            f"baseline: correct on {stated} and {drawn}",
            *(f"  {text}" for text in (*self.failed, *self.hidden_failed)),
            *(f"  left out: {text}" for text in self.left_out),
            *([self.ends.line()] if self.ends.calls else []),
            *(f"  {failed.case.named}: {failed.cause}" for failed in self.ends.failed),
        ]
        if self.unlaunched:
            some = kernels_text(self.unlaunched)
            lines.append(
                "no case launches these kernels; a candidate that changes one of them is judged"
                f" on calls that launch it, and is refused if there are none: {some}"
            )
        for argument, output in dict.fromkeys((t.argument, t.output) for t in self.trials):
            own = [t for t in self.trials if (t.argument, t.output) == (argument, output)]
            wrong = [t for t in own if not t.right]
            caught, right = sum(not t.passed for t in wrong), len(own) - len(wrong)
            note = f" (on {right} more, this output is the correct result)" if right else ""
            cases = counted(len(wrong), "case")
            lines.append(f"{argument}: {output}: fails on {caught} of {cases}{note}")
        lines += [f"  not distinguishable from real work: {text}" for text in self.undetected]
        lines += [*self.large_atol, *(self.bugs.lines() if self.bugs else [])]
        if self.failed or self.hidden_failed or self.left_out:
            lines.append(f"to use the same cases again: --seed {self.seed}")
        return [*lines, "fit for judging" if self.fit else "not fit for judging"]


def check_task(
    task: Task,
    device: Device,
    tell: Callable[[int, int, str], None] = lambda *_: None,
    mutants: int = 0,
    trust: bool = False,
    entropy: Entropy | None = None,
) -> TaskReport:
    """Run the baseline on the task's cases and on drawn ones, look for the causes where it fails;
    try trivial outputs, and so many seeded bugs, on the former.

    `trust` lets an untrusted task run where this machine cannot isolate it. Raises
    MissingDependency.
    """
    require_trust(trust, task.baseline, *acting_files(task))
    oracle, stop, entropy = Oracle(task), Stop(), entropy or Entropy()
    seed = entropy.evaluation("the task")
    try:
        oracle.require_sound(stop)
        runner = Runner(task, device, stop)
        checker = Checker(runner, oracle, entropy)
        drawn = draw(task, device.kind, seed.of("hidden cases").random())
        oracle_cases = oracle.oracle_cases([*task.check, *drawn], stop)
        own, hidden = oracle_cases[: len(task.check)], oracle_cases[len(task.check) :]
        failed, not_tried = _parted(checker.learn(own, tell))
        hidden_failed, hidden_not_tried = _parted(checker.learn(hidden, tell))
        baseline = require_build(
            build(task, task.baseline, device, stop), f"the baseline of {task.name}"
        )
        never = kernels_not_launched(runner, baseline, [*task.check, *drawn])
        found = at_ends(checker, runner, oracle, baseline, [*task.check, *drawn])
        right = [t for t in own if checker.baseline_errors.knows(t.case)]
        passed = [t.case for t in right]
        why, hidden_why = (
            explained(task, checker, oracle, stop, some, passed) for some in (failed, hidden_failed)
        )
        disagreement = list(_disagreement(task, failed, _unexcused(hidden_why)))
        if not disagreement and (wrong := wrong_in_another_order(runner, right)):
            disagreement = [f"{ORDERED}: {describe(wrong)}", *_hint(task, wrong)]
        all_trials, large = trials(task, own, checker.baseline_errors), large_atol(task, own)
        bugs = None
        if mutants and not disagreement:
            bugs = Scorer(task, oracle, task.baseline, stop, mutants, tell, entropy).suite()
    finally:
        oracle.close()
    return TaskReport(
        cases=len(own),
        failed=tuple(map(str, why)),
        not_tried=not_tried,
        hidden=len(hidden),
        hidden_not_tried=hidden_not_tried,
        hidden_failed=tuple(map(str, _unexcused(hidden_why))),
        left_out=tuple(str(one) for one in hidden_why if one.by_values),
        trials=tuple(all_trials),
        seed=seed.text,
        undetected=tuple(undetected(all_trials)),
        disagreement=tuple(disagreement),
        bugs=bugs,
        ends=found,
        unlaunched=never,
        large_atol=tuple(large),
    )


def _of(cases: int, failed: int, which: str, not_tried: int) -> str:
    """How many cases are right, of how many that were tried."""
    tried = cases - not_tried
    more = f" ({not_tried} more not tried)" if not_tried else ""
    return f"{tried - failed} of {tried} {which}{more}"


def _parted(failed: Sequence[Failed]) -> tuple[list[Failed], int]:
    """Those that the baseline failed, and the number of those that it was not tried on."""
    tried = [one for one in failed if one.tried]
    return tried, len(failed) - len(tried)


def _disagreement(
    task: Task, failed: Sequence[Failed], hidden_why: Sequence[Explained]
) -> Iterator[str]:
    """What is wrong on the first failing case, as text, and what the contract can say about it."""
    first = next(iter([*failed, *(one.failed for one in hidden_why)]), None)
    if first is None or first.outcome is None:
        return
    yield f"baseline.cu does not compute what reference.py defines: {describe(first.outcome)}"
    if isinstance(first.outcome, Wrong):
        yield from _hint(task, first.outcome)
    if not failed:
        yield (
            "  task.toml allows the cases below: narrow the dims, values or dtypes that they"
            " name, or correct reference.py"
        )


def _hint(task: Task, wrong: Wrong) -> Iterator[str]:
    """Where integers that must be equal differ, the result may be one of several legal ones."""
    (arg,) = (arg for arg in task.args if arg.name == wrong.argument)
    differs = wrong.reason in ("value", "unwritten") and arg.judged_by(wrong.case) == "exact"
    if differs and not is_float(arg.dtype_of(wrong.case)):
        yield f"  {UNDECIDED}"


def _unexcused(failed: Sequence[Explained]) -> list[Explained]:
    return [one for one in failed if not one.by_values]


MAX_BYTES = 2**20
"""Larger cases tell no more, and take the NumPy engine long."""


def wrong_in_another_order(runner: Runner, oracle_cases: Sequence[OracleCase]) -> Wrong | None:
    """What is wrong on the first of these cases, on which the baseline is right, when atomics are
    served in reverse; None on a real GPU, where they come in any order anyway.

    What keeps a call from ending is no statement about the result, and ends the search.
    """
    task = runner.task
    small = [t for t in oracle_cases if task.least_bytes(t.case) <= MAX_BYTES]
    if runner.device.kind != "virtual" or not small:
        return None
    built = build_all(task, [task.baseline], runner.device, runner.stop)[0]
    if not isinstance(built, Build) or not has_atomics(built.ptx.read_text()):
        return None
    for run in replace(runner, engine="numpy", descending=True).run(built, small, "check"):
        if not isinstance(run, CaseRun):
            return None
        if isinstance(verdict := compare(task, run), Wrong):
            return verdict
    return None


# Tolerances whose atol is large beside the results, so that it hides errors.

LARGE = 0.01
"""Share of a usual result from which on atol counts as large, unless rtol allows as much."""
ALONE = "this tolerance alone would accept zeros; only the limit on the rms error rejects them"


def large_atol(task: Task, oracle_cases: Sequence[OracleCase]) -> list[str]:
    """A line for each output and dtype whose atol is large beside the median result of the case of
    ordinary values where that is smallest."""
    smallest: dict[tuple[str, str], tuple[float, OracleCase]] = {}
    for name, dtype, median, oracle_case in _medians(task, oracle_cases):
        known = smallest.get((name, dtype))
        if known is None or median < known[0]:
            smallest[name, dtype] = median, oracle_case
    args = {arg.name: arg for arg in task.args}
    lines = []
    for (name, dtype), (median, oracle_case) in smallest.items():
        tolerance = task.tolerance_of(args[name], oracle_case.case)
        share = tolerance.atol / median
        if share > max(LARGE, 2 * tolerance.rtol):
            size = f"{share:.2g} times" if share >= 1 else f"{share:.0%} of"
            passes = f"; {ALONE}" if share >= 1 else ""
            lines.append(
                f"tolerance of {name}, {dtype}: atol {tolerance.atol:g} is {size} the median result"
                f" {median:.2g} on {oracle_case.case.named}{passes}; use"
                f" {LARGE * median:.0e} or less"
            )
    return lines


def _medians(
    task: Task, oracle_cases: Sequence[OracleCase]
) -> Iterator[tuple[str, str, float, OracleCase]]:
    """Yields output, dtype and median magnitude of its results, those that are 0 aside."""
    for oracle_case in oracle_cases:
        case = oracle_case.case
        if case.values != "normal" or case.families:
            continue
        for arg in task.args:
            if arg.written and arg.bytes_of(case) and arg.judged_by(case) == "close":
                expected = np.abs(oracle_case.expected(arg))
                results = expected[np.isfinite(expected) & (expected > 0)]
                if len(results):
                    yield arg.name, arg.dtype_of(case), float(np.median(results)), oracle_case
