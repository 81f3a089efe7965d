"""A sweep on a real GPU: a thousand drawn cases, candidate beside baseline, compared there.

The oracle sees a few hundred cases of a candidate. A kernel that is wrong in a narrow part of the
legal domain may meet none of them, so many more are compared with the baseline's results on the
device, without the oracle (runners/cuda_sweep.py). What is in doubt there goes through the check
like any other drawn case: the sweep itself condemns nothing but a call that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event, Lock

from astra_chat.tools.build.nvcc import Build, build, require_build
from astra_chat.tools.check.hidden_cases import draw_swept
from astra_chat.tools.check.lost_cases import Failed
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import (
    BadReport,
    CaseReport,
    SweepReport,
    SweepRequest,
    read_report,
)
from astra_chat.tools.run.requests import Batch
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, signal_name
from astra_chat.tools.types import Case, Crashed, TimedOut
from astra_vgpu.ground.errors import BadInput

CHILD = "astra_chat.tools.runners.cuda_sweep"
TIMEOUT_S = 60.0
WAIT_S = 0.1
MAX_JUDGED = 64
"""Cases in doubt that the oracle judges."""
MAX_FAILED = 8
"""Cases on which the baseline fails, after which a sweep is an error of the task."""

Swept = tuple[int, list[OracleCase]] | Failure
"""How many cases were compared and which of them the check has to judge, or a call that failed."""


class Sweep:
    """The cases of a judge's sweeps. They are made once, for all candidates."""

    def __init__(self, runner: Runner, oracle: Oracle, seed: Seed) -> None:
        self._runner, self._oracle, self._seed = runner, oracle, seed.of("swept cases")
        self._cases: list[Case] | None = None
        self._one = Lock()
        self._made: list[OracleCase] = []
        self.left_out: list[str] = []
        """Cases on which the baseline fails, and how."""

    def ready(self) -> list[OracleCase]:
        """Inputs and results of the cases on which the baseline can be run."""
        self._made = self._oracle.oracle_cases(self.launched(), self._runner.stop)
        return list(self._made)

    def launched(self) -> list[Case]:
        """The cases on which the baseline can be run; threads that ask at the same time get the
        same."""
        with self._one:
            if self._cases is None:
                self._cases = self._drawn()
            return list(self._cases)

    def _drawn(self) -> list[Case]:
        drawn = draw_swept(self._runner.task, self._seed.random())
        plans = self._runner.record(self._baseline(), drawn)
        pairs = list(zip(drawn, plans, strict=True))
        self.left_out += [
            str(Failed(case, plan)) for case, plan in pairs if not isinstance(plan, LaunchPlan)
        ]
        return [case for case, plan in pairs if isinstance(plan, LaunchPlan)]

    @property
    def cases(self) -> list[Case]:
        return list(self._cases or ())

    def doubtful(self, runner: Runner, built: Build) -> Swept:
        """Raises BadInput where the baseline fails again and again, and Cancelled."""
        for _ in range(MAX_FAILED):
            oracle_cases = self.ready()
            report = swept(runner, built, self._baseline(), oracle_cases)
            if not isinstance(report, SweepReport):
                return report
            if report.failed is None:
                return report.compared, _to_judge([oracle_cases[i] for i in report.doubtful])
            case = oracle_cases[report.failed].case
            failure = failure_of(CaseReport(status=report.status, changed=report.changed), case)
            assert failure is not None
            if not report.by_baseline:
                return failure
            assert self._cases is not None
            self._cases.remove(case)
            self.left_out.append(str(Failed(case, failure)))
        raise BadInput(
            f"the baseline of {runner.task.name} fails on {MAX_FAILED} valid cases, such as"
            f" {self.left_out[-1]}: repair the baseline, or narrow the domain in task.toml"
        )

    def forget(self) -> None:
        """Delete the inputs and results of its cases."""
        while self._made:
            self._oracle.forget(self._made.pop())
        self._cases = None

    def _baseline(self) -> Build:
        runner = self._runner
        built = build(runner.task, runner.task.baseline, runner.device, runner.stop)
        return require_build(built, f"the baseline of {runner.task.name}")


class RunningSweep:
    """A sweep in a thread of its own, beside the check of the same candidate: that compares results
    on the CPU most of its time, while the GPU waits."""

    def __init__(self, sweep: Sweep, runner: Runner, built: Build, *, forget: bool) -> None:
        """It begins with `begin`. `forget`: its cases are deleted at its end."""
        self._sweep, self._forget, self._stop = sweep, forget, Stop(runner.stop)
        self._begun = Event()
        self._pool = ThreadPoolExecutor(1, "astra-sweep")
        runner = replace(runner, stop=self._stop)
        self._future = self._pool.submit(self._doubtful, runner, built)

    def begin(self) -> None:
        """Begin, unless it was begun. Plans are recorded one after another, and its thousand would
        keep the check's own calls waiting: those come first."""
        self._begun.set()

    def _doubtful(self, runner: Runner, built: Build) -> Swept:
        while not self._begun.wait(WAIT_S):
            self._stop.check()
        return self._sweep.doubtful(runner, built)

    @property
    def left_out(self) -> list[str]:
        return self._sweep.left_out

    def launched(self) -> list[Case]:
        """Those that are compared unless the baseline fails them."""
        return self._sweep.launched()

    @property
    def cases(self) -> list[Case]:
        """Those that were compared, once there is a result."""
        return self._sweep.cases

    def result(self) -> Swept:
        """Wait for it. Raises what `Sweep.doubtful` raises."""
        self.begin()
        return self._future.result()

    def end(self) -> None:
        """Stop it, where nobody waits for its result any more."""
        self._stop.set()
        self._pool.shutdown()
        if self._forget:
            self._sweep.forget()


def swept(
    runner: Runner, built: Build, baseline: Build, oracle_cases: Sequence[OracleCase]
) -> SweepReport | Failure:
    """Call candidate and baseline on these cases, whose inputs lie in one folder.

    Raises Cancelled.
    """
    calls = runner.planned(built, oracle_cases, baseline)
    if not isinstance(calls, list):
        return calls
    batch = Batch(built, calls, "check", baseline, compared_there=True)
    folders = (built.folder, baseline.folder, oracle_cases[0].inputs.parent)
    first = oracle_cases[0].case
    with (
        runner.process("check", lambda s: runner.policy(folders, s), CHILD) as process,
        runner.leased("check", alone=False),
    ):
        try:
            asked = SweepRequest(**dict(runner.cuda_request(batch, process)))
            process.worker.ask(asked.model_dump(mode="json"), TIMEOUT_S, runner.stop)
            reports = list(process.worker.reports())
            end = process.worker.finish()
        except StepTimeout:
            return TimedOut(step="check", limit_s=TIMEOUT_S)
        except StepMemory:
            message = "a sweep used more than half of this machine's memory and was killed"
            return Crashed(case=first, message=message)
    try:
        return read_report(SweepReport, reports[0])
    except (IndexError, BadReport):
        message = f"a sweep's process was {signal_name(end.returncode)}; {last_line(end.output)}"
        return Crashed(case=first, message=message)


def _to_judge(doubtful: list[OracleCase]) -> list[OracleCase]:
    """Those of them that the oracle judges: of special values last, on which right kernels may
    differ."""
    return sorted(doubtful, key=_of_special_values)[:MAX_JUDGED]


def _of_special_values(oracle_case: OracleCase) -> bool:
    case = oracle_case.case
    return "special" in (case.values, *case.families.values())
