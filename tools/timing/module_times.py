"""A candidate beside the PyTorch module that is its task's reference: eager, torch.compile, and
a CUDA graph of either, each timed by turns with the candidate (runners/cuda_module.py).

What cannot be timed is named with its reason: no baseline is left out. Of several compilations the
fastest counts, for each baseline by its own figure; that choice favours PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from pydantic import Field

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.case_run import CaseRun, taken
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import (
    BadReport,
    CallRequest,
    ModuleReport,
    ModuleRequest,
    RawTimes,
    read_report,
)
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, signal_name
from astra_chat.tools.timing.gpu_samples import case_limit_us, interval, time_of
from astra_chat.tools.timing.verdict import judged
from astra_chat.tools.types import Case, Implausible, MeasuredTime, Value, Wrong

CHILD = "astra_chat.tools.runners.cuda_module"
TIMEOUT_S = 600.0
NO_GPU = "there is no GPU here, and PyTorch is timed only on a real one"
PLAN_TRUST = "launch plan: none of the candidate's host code is in the process that times it"

BaselineName = Literal["eager", "eager, CUDA graph", "torch.compile", "torch.compile, CUDA graph"]
EAGER: tuple[BaselineName, BaselineName] = ("eager", "eager, CUDA graph")
COMPILED: tuple[BaselineName, BaselineName] = ("torch.compile", "torch.compile, CUDA graph")


class PairTimes(Value):
    """A baseline and the candidate, timed by turns; microseconds of a call."""

    us: float = Field(gt=0)
    candidate_us: float = Field(gt=0)
    ratio: float
    """Baseline over candidate: above 1 the candidate is faster."""
    ratio_low: float
    ratio_high: float
    """95 % interval; of graphs never narrower than the A/A noise."""


class ModuleTime(Value):
    """One baseline of PyTorch's and the candidate on one case, or why there are no times.

    With "CUDA graph" both are replayed, with a cold L2; without, both are launched one call after
    the other with an event pair around each, the host's work included.
    """

    baseline: BaselineName
    case: Case
    times: PairTimes | None = None
    """Medians; None: it was not run."""
    compilations_us: tuple[float, ...] = ()
    """Times of each compilation of torch.compile that ran, in order."""
    note: str = ""
    not_run: str = ""
    """Why there is no time."""


class BesideModule(Value):
    """All baselines of PyTorch's beside one candidate."""

    task: str
    candidate: str
    device: str
    trust: str
    """How far the candidate's figures can be relied on: what was in the process that timed it."""
    tensor_float32: bool
    """Whether products and convolutions of float32 used TF32, as task.toml says."""
    mode: str
    """Mode of torch.compile."""
    compilations: int
    """Compilations for each case, each from empty caches."""
    times: tuple[ModuleTime, ...] = Field(min_length=1)

    @property
    def ran(self) -> bool:
        """Whether any baseline was timed."""
        return any(one.times for one in self.times)


def time_beside_module(
    runner: Runner,
    oracle: Oracle,
    built: Build,
    weighted: Sequence[tuple[OracleCase, float]],
    caches: int,
    mode: str,
    on_way: Callable[[int], None] = lambda _: None,
) -> list[ModuleTime] | Wrong | Failure:
    """Times of all baselines on these cases; what is wrong with the candidate's timed launches.

    `caches`: compilations for each case; `mode`: torch.compile's; `on_way` gets the number of
    ways that were timed. Raises Cancelled.
    """
    reported = _reported(runner, oracle, built, [one for one, _ in weighted], caches, mode, on_way)
    if not isinstance(reported, tuple):
        return reported
    found, ended = reported
    rows = []
    for (oracle_case, weight), reports in zip(weighted, found, strict=True):
        floor = case_limit_us(runner, oracle_case)
        failed = next((r.not_run for many in found for r in many if not r.way), ended)
        rows += module_times(reports, oracle_case.case, weight, floor, failed, caches)
    return rows


def time_beside_eager(
    runner: Runner, oracle: Oracle, built: Build, weighted: Sequence[tuple[OracleCase, float]]
) -> list[MeasuredTime | str] | Wrong | Failure:
    """Times of a build on these cases, with eager as the baseline; or why there are none, as text.
    Raises Cancelled."""
    reported = _reported(runner, oracle, built, [one for one, _ in weighted], 0, "default")
    if not isinstance(reported, tuple):
        return reported
    found, ended = reported
    times: list[MeasuredTime | str] = []
    for (oracle_case, weight), reports in zip(weighted, found, strict=True):
        floor = case_limit_us(runner, oracle_case)
        done = [one.report.measured for one in reports if one.report and one.report.times]
        why = next((one.not_run for one in reports if one.not_run), ended)
        time = time_of(done[0], oracle_case.case, weight, floor) if done else why
        times.append(time.why if isinstance(time, Implausible) else time)
    return times


def _reported(
    runner: Runner,
    oracle: Oracle,
    built: Build,
    oracle_cases: Sequence[OracleCase],
    caches: int,
    mode: str,
    on_way: Callable[[int], None] = lambda _: None,
) -> tuple[list[list[ModuleReport]], str] | Wrong | Failure:
    """What the process reported of each case, and why it ended before it was done."""
    calls = runner.planned(built, oracle_cases)
    if not isinstance(calls, list):
        return calls
    batch = Batch(built, calls, "time")
    found: list[list[ModuleReport]] = [[] for _ in calls]
    ended = f"it took more than {TIMEOUT_S:.0f} s"
    with (
        runner.process("time", partial(runner.sandbox, built, oracle_cases), CHILD) as process,
        runner.leased("time", alone=True),
    ):
        asked = runner.cuda_request(batch, process).extended(ModuleRequest, caches=caches, how=mode)
        try:
            process.worker.ask(asked.model_dump(mode="json"), TIMEOUT_S, runner.stop)
            for number, raw in enumerate(process.worker.reports()):
                report = read_report(ModuleReport, raw)
                oracle_case = oracle_cases[report.index]
                found[report.index].append(report)
                wrong = _wrong(runner, oracle, oracle_case, asked.calls[report.index], report)
                if wrong:
                    return wrong
                on_way(number + 1)
            end = process.worker.finish()
            ended = f"its process was {signal_name(end.returncode)}; {last_line(end.output)}"
        except StepTimeout:
            pass
        except StepMemory:
            ended = "its process used more than half of this machine's memory and was killed"
        except (BadReport, IndexError) as error:
            ended = f"its process sent a report that Astra cannot read: {error}"
    return found, ended


def _wrong(
    runner: Runner,
    oracle: Oracle,
    oracle_case: OracleCase,
    call: CallRequest,
    report: ModuleReport,
) -> Wrong | Failure | None:
    """What is wrong with what the candidate did or wrote in timed launches."""
    done = report.report
    if done is None:
        return None
    if failure := failure_of(done, oracle_case.case):
        return failure
    folder = taken(report.beside(call.after))
    run = CaseRun(oracle_case, folder, done, call.pattern)
    try:
        if odd := run.oddity(runner.task.args):
            return odd
        verdict = judged(
            runner.task, run, oracle, runner.stop, runner.known.right, correct_baseline=False
        )
        return verdict if isinstance(verdict, Wrong) else None
    finally:
        run.remove()


def module_times(
    reports: Sequence[ModuleReport],
    case: Case,
    weight: float,
    floor: float,
    ended: str,
    caches: int,
) -> list[ModuleTime]:
    """The four baselines on one case from what was reported of it: a pure function.

    `floor`: the case's physical limit, in microseconds; `ended`: why a way has no report.
    """
    eager = [one for one in reports if one.way == "eager"]
    compiled = [one for one in reports if one.way.startswith("compile")]
    time = partial(_time, case=case, weight=weight, floor=floor)
    rows = []
    for (plain, graph), ways in ((EAGER, eager), (COMPILED, compiled)):
        why = next((one.not_run for one in ways if one.not_run), ended)
        if ways is compiled and not caches:
            why = "no compilation was requested (--compilations 0)"
        timed = [one.report.measured for one in ways if one.report and one.report.times]
        for baseline in (plain, graph):
            found = [time(times, baseline=baseline) for times in timed]
            rows.append(_fastest(found) or ModuleTime(baseline=baseline, case=case, not_run=why))
    return rows


def _fastest(found: Sequence[ModuleTime]) -> ModuleTime | None:
    """The baseline by its fastest way, with what each took."""
    ran = [(one.times.us, one) for one in found if one.times]
    if not ran:
        return found[0] if found else None
    best = min(ran, key=lambda each: each[0])[1]
    took = () if best.baseline in EAGER else tuple(us for us, _ in ran)
    return best.model_copy(update={"compilations_us": took})


def _time(
    times: RawTimes, *, baseline: BaselineName, case: Case, weight: float, floor: float
) -> ModuleTime:
    """A baseline's time by one way of PyTorch's."""
    graphs = time_of(times, case, weight, floor)
    if isinstance(graphs, Implausible):
        return ModuleTime(baseline=baseline, case=case, not_run=f"implausible: {graphs.why}")
    if baseline.endswith("graph"):
        us, candidate_us, note = graphs.baseline_us, graphs.median_us, graphs.note
        ratios = graphs.ratio_low, graphs.ratio, graphs.ratio_high
    else:
        us, candidate_us, note = graphs.baseline_event_us, graphs.event_us, ""
        pairs = zip(times.baseline_event_us, times.candidate_event_us, strict=True)
        low, middle, high = interval([math.log(a / b) for a, b in pairs])
        ratios = math.exp(low), math.exp(middle), math.exp(high)
    low, ratio, high = ratios
    pair = PairTimes(us=us, candidate_us=candidate_us, ratio=ratio, ratio_low=low, ratio_high=high)
    return ModuleTime(baseline=baseline, case=case, times=pair, note=note)


def not_run(cases: Sequence[Case], why: str) -> list[ModuleTime]:
    """All baselines on these cases, none of which was run."""
    return [
        ModuleTime(baseline=baseline, case=case, not_run=why)
        for case in cases
        for baseline in (*EAGER, *COMPILED)
    ]
