"""Times a candidate beside the baseline, case by case, and decides: faster, tie or slower.

Times are measured on a GPU, estimated on the virtual GPU. `judge_times` is the verdict rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal

import numpy as np

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compare import compare, compare_written
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.measured_values import MeasuredPiece, pieces
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CaseReport, FetchedSet, TimedMode
from astra_chat.tools.run.runner import KnownCall, Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.memory import memory_use
from astra_chat.tools.timing.gpu_samples import below_limit, case_limit_us, measured_time
from astra_chat.tools.timing.intervals import mean, mean_interval
from astra_chat.tools.types import (
    AnyTime,
    Correct,
    EstimatedTime,
    Implausible,
    Profile,
    Timed,
    Wrong,
    memory_share,
)
from astra_chat.tools.virtual_gpu.adapter import COVERAGE, Estimate, ratio_interval
from astra_vgpu.ground.errors import BadInput

MIN_GAIN = 1.01
"""What the lower end of the mean's interval must exceed to be accepted; slower likewise."""
NO_REGRESSION = 0.98
"""A measured case whose interval reaches below this keeps a candidate from being accepted."""
LESS_MEMORY = 0.9
"""Where memory counts, a candidate that is as fast as the baseline and needs at most this share of
its memory is accepted."""


Verdict = Literal["accepted", "tie", "slower"]


@dataclass(frozen=True)
class TimedCase:
    """One case's time and, on the virtual GPU, the report it was estimated from."""

    time: AnyTime
    report: CaseReport


def time_cases(
    runner: Runner,
    oracle: Oracle,
    candidate: Build,
    baseline: Build,
    weighted: Sequence[tuple[OracleCase, float]],
    on_case: Callable[[int], None] = lambda _: None,
    baseline_errors: BaselineErrors | None = None,
    learn: Callable[[Sequence[OracleCase]], object] = lambda _: None,
    *,
    correct_baseline: bool = True,
) -> list[TimedCase] | Wrong | Implausible | Failure:
    """Time every case; what the timed launches wrote is compared with the oracle too, and held
    against the baseline's own errors: `baseline_errors` knows them, or learns them by `learn`.

    Raises BadInput where the baseline is wrong on inputs of timed launches, unless that is
    expected of it.
    """
    oracle_cases = [oracle_case for oracle_case, _ in weighted]
    baselines: list[Estimate] = []
    if runner.device.kind == "virtual":
        found = _baseline_estimates(runner, baseline, oracle_cases)
        if not isinstance(found, list):
            return found
        baselines = found
    timed: dict[int, TimedCase] = {}
    results = _Results(runner, oracle, baseline_errors, learn, correct_baseline)
    order = _largest_first(runner, oracle_cases)
    ordered = [oracle_cases[index] for index in order]
    for turn, run in enumerate(runner.run(candidate, ordered, "time", baseline)):
        index = order[turn]
        if not isinstance(run, CaseRun):
            return run
        if wrong := results.wrong(run):
            return wrong
        weight = weighted[index][1]
        if baselines:
            time: AnyTime | Implausible = estimated_time(runner, run, baselines[index], weight)
            beside = runner.known.workspace_bytes.get(_key(baseline, oracle_cases[index]))
        else:
            time = measured_time(runner, run, weight)
            beside = run.report.baseline_workspace_bytes
        if isinstance(time, Implausible):
            return time
        timed[index] = TimedCase(_with_memory(runner, time, run, beside), run.report)
        on_case(len(timed))
    return results.borne_out() or [timed[index] for index in range(len(oracle_cases))]


def early_ratio(
    runner: Runner, candidate: Build, baseline: Build, oracle_case: OracleCase
) -> float | None:
    """Returns the estimated ratio on one case before anything is checked; None where the virtual
    GPU does not run it: the check will say why."""
    first = _baseline_estimates(runner, baseline, [oracle_case])
    if not isinstance(first, list):
        return None
    (run,) = runner.run(candidate, [oracle_case], "time", baseline)
    return ratio_interval(first[0], run.report.estimated)[1] if isinstance(run, CaseRun) else None


def _largest_first(runner: Runner, oracle_cases: Sequence[OracleCase]) -> list[int]:
    """On a GPU what a case wrote is compared while the next is timed: the largest takes longest."""
    order = list(range(len(oracle_cases)))
    if runner.device.kind == "cuda":
        order.sort(key=lambda index: -runner.task.least_bytes(oracle_cases[index].case))
    return order


def _baseline_estimates(
    runner: Runner, baseline: Build, oracle_cases: Sequence[OracleCase]
) -> list[Estimate] | Failure:
    """Estimates of the baseline's calls. One call each is enough in a runner's life."""
    known, keys = runner.known.estimates, [_key(baseline, one) for one in oracle_cases]
    news = [(key, t) for key, t in zip(keys, oracle_cases, strict=True) if key not in known]
    for run in runner.run(baseline, [t for _, t in news], "time") if news else ():
        if not isinstance(run, CaseRun):
            return run
        known[_key(baseline, run.oracle_case)] = run.report.estimated
        runner.known.workspace_bytes[_key(baseline, run.oracle_case)] = run.report.workspace_bytes
    return [known[key] for key in keys]


def _key(build: Build, oracle_case: OracleCase) -> KnownCall:
    return build.folder, oracle_case.case.model_dump_json()


def _with_memory(runner: Runner, time: AnyTime, run: CaseRun, baseline: int | None) -> AnyTime:
    """The time with what the call needs of memory, where that counts. `baseline`: bytes of the
    workspaces that the baseline uses."""
    own = run.report.workspace_bytes
    found = memory_use(runner.task.memory, runner.task, time.case, own, baseline)
    return time.model_copy(update={"memory": found}) if found else time


@dataclass
class _Results:
    """Compares timed results, and keeps those that are less precise than the baseline's where its
    errors were learned so far.

    That may be at other sizes, on which less is lost: before it counts, these cases are learned,
    which cannot be done while the GPU is held to time.
    """

    runner: Runner
    oracle: Oracle
    baseline_errors: BaselineErrors | None
    learn: Callable[[Sequence[OracleCase]], object]
    correct_baseline: bool
    doubtful: list[tuple[OracleCase, list[MeasuredPiece]]] = field(default_factory=list)

    def wrong(self, run: CaseRun) -> Wrong | None:
        """What is wrong with a case's results; more may be doubtful."""
        task = self.runner.task
        if self.runner.device.kind == "virtual":
            verdict = compare(task, run)
            found: CaseRun | Wrong = verdict if isinstance(verdict, Wrong) else run
        else:
            found = judged(
                task,
                run,
                self.oracle,
                self.runner.stop,
                self.runner.known.right,
                correct_baseline=self.correct_baseline,
            )
        if isinstance(found, Wrong):
            return found
        some = pieces(task, found)
        if self.baseline_errors and self.baseline_errors.judge_pieces(some):
            self.doubtful.append((run.oracle_case, some))
        return None

    def borne_out(self) -> Wrong | None:
        if self.baseline_errors is None or not self.doubtful:
            return None
        self.learn([oracle_case for oracle_case, _ in self.doubtful])
        again = (self.baseline_errors.judge_pieces(some) for _, some in self.doubtful)
        return next(filter(None, again), None)


def judge_times(cases: Sequence[AnyTime]) -> tuple[float, Verdict, str]:
    """Weighted geometric mean of the ratios, the verdict, and why.

    Where memory counts, a measured tie in no case of which the candidate may be slower is accepted
    for less memory. By estimate a tie leaves open which is faster.
    """
    ratio = mean([(c.ratio, c.weight) for c in cases])
    if cases[0].basis == "estimated":
        return ratio, *_estimated_verdict(cases)
    low, high = mean_interval(cases)
    worst = min(cases, key=lambda c: c.ratio_low)
    if low <= MIN_GAIN:
        verdict: Verdict = "slower" if high < 1 / MIN_GAIN else "tie"
        words, share = f"95 % interval {low:.3f} to {high:.3f}", memory_share(cases)
        even = verdict == "tie" and worst.ratio_low >= NO_REGRESSION
        if even and share is not None and share <= LESS_MEMORY:
            return ratio, "accepted", f"{words}, at {share:.2g} times the baseline's memory"
        return ratio, verdict, words
    if worst.ratio_low < NO_REGRESSION:
        why = f"{worst.case.label} may be slower: {worst.ratio_low:.3f} to {worst.ratio_high:.3f}"
        return ratio, "tie", why
    interval_words = f"95 % interval {low:.3f} to {high:.3f}"
    worst_words = f"worst case {worst.case.label} at {worst.ratio_low:.3f}"
    return ratio, "accepted", f"{interval_words}; {worst_words}"


def timed_outcome(
    correct: Correct, cases: Sequence[AnyTime], profiles: Sequence[Profile], heaviest: int
) -> Timed:
    """Outcome of a correct candidate: its times with their verdict. `profiles`: of all cases, or of
    that at the place `heaviest` alone."""
    ratio, verdict, why = judge_times(cases)
    others = list(profiles)
    main = others.pop(heaviest if len(others) > 1 else 0)
    return Timed(
        correct=correct,
        cases=tuple(cases),
        ratio=ratio,
        verdict=verdict,
        why=why,
        profile=main,
        other_profiles=tuple(others),
    )


def _estimated_verdict(cases: Sequence[AnyTime]) -> tuple[Verdict, str]:
    """Only the word depends on the prediction interval: a search ranks by the estimate itself."""
    low, high = mean_interval(cases)
    worst = min(cases, key=lambda c: c.ratio_high)
    interval_words = f"{100 * COVERAGE:.0f} % prediction interval {low:.2f} to {high:.2f}"
    if high < 1.0:
        return "slower", interval_words
    if low <= 1.0:
        return "tie", f"by estimate: {interval_words}"
    if worst.ratio_high < 1.0:
        ends = f"{worst.ratio_low:.2f} to {worst.ratio_high:.2f}"
        return "tie", f"{worst.case.label} is estimated slower: {ends}"
    slowest = min(cases, key=lambda c: c.ratio)
    return "accepted", f"{interval_words}; worst case {slowest.case.label} at {slowest.ratio:.2f}"


def estimated_time(
    runner: Runner, run: CaseRun, baseline: Estimate, weight: float
) -> EstimatedTime | Implausible:
    """One case of the virtual GPU, beside the baseline's estimate."""
    candidate, sampled = run.report.estimated, run.report.sampled
    case, floor = run.oracle_case.case, case_limit_us(runner, run.oracle_case)
    if why := below_limit(candidate.us, floor):
        return Implausible(case=case, median_us=candidate.us, why=f"estimated: {why}")
    low, ratio, high = ratio_interval(baseline, candidate)
    return EstimatedTime(
        case=case,
        weight=weight,
        baseline_us=baseline.us,
        median_us=candidate.us,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        limit_us=floor,
        percent_of_limit=100 * floor / candidate.us,
        limiter=candidate.limiter,
        note=f"ran and checked {sampled}" if sampled else "",
    )


# Judges what timed launches on a real GPU wrote, by the buffer sets that they handed over.
#
# The runner compared all sets with the baseline's results on the device (runners/cuda_timing.py).
# Here the oracle judges those that differ, and a drawn part of all with the baseline's results on
# them: what the baseline gets wrong it cannot vouch for.

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
