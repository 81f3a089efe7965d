"""A sweep on a real GPU: a thousand drawn cases, candidate beside baseline, compared there.

The oracle sees a few hundred cases of a candidate. A kernel that is wrong in a narrow part of the
legal domain may meet none of them, so many more are compared with the baseline's results on the
device, without the oracle (children/cuda_sweep.py). What is in doubt there goes through the check
like any other drawn case: the sweep itself condemns nothing but a call that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import ValidationError

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.hidden_cases import draw_swept
from astra_chat.tools.entropy import Seed
from astra_chat.tools.errors import BadInput
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.batch import Batch
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CaseReport, SweepReport, SweepRequest
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, signal_name
from astra_chat.tools.types import Case, Crashed, TimedOut

CHILD = "astra_chat.tools.children.cuda_sweep"
TIMEOUT_S = 60.0
MAX_JUDGED = 64
"""Cases in doubt that the oracle judges."""
MAX_FAILED = 8
"""Cases on which the baseline fails, after which a sweep is an error of the task."""

Tell = Callable[[int, int, str], None]


class Sweep:
    """The cases of a judge's sweeps. They are made once, for all candidates."""

    def __init__(self, runner: Runner, oracle: Oracle, seed: Seed) -> None:
        self._runner, self._oracle, self._seed = runner, oracle, seed.of("swept cases")
        self._cases: list[Case] | None = None
        self.left_out: list[str] = []
        """Cases on which the baseline fails, and how."""

    def ready(self, tell: Tell = lambda *_: None) -> list[OracleCase]:
        """Inputs and results of the cases on which the baseline can be run."""
        if self._cases is None:
            drawn = draw_swept(self._runner.task, self._seed.random())
            plans = self._runner.record(self._baseline(), drawn)
            pairs = zip(drawn, plans, strict=True)
            self._cases = [case for case, plan in pairs if isinstance(plan, LaunchPlan)]
        cases, stop = self._cases, self._runner.stop
        return self._oracle.oracle_cases(
            cases, stop, lambda made: tell(0, len(cases), f"oracle: {made} made")
        )

    def doubtful(
        self, runner: Runner, built: Build, tell: Tell
    ) -> tuple[int, list[OracleCase]] | Failure:
        """How many cases were compared and which of them the check has to judge, or a call that
        failed. Raises BadInput where the baseline fails again and again, and Cancelled."""
        for _ in range(MAX_FAILED):
            oracle_cases = self.ready(tell)
            tell(0, len(oracle_cases), "compared with the baseline")
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
            self.left_out.append(f"{case.label}: the baseline {failure.kind}")
        raise BadInput(
            f"the baseline of {runner.task.name} fails on {MAX_FAILED} legal cases, such as"
            f" {self.left_out[-1]}: mend it, or state the legal domain in task.toml"
        )

    def _baseline(self) -> Build:
        runner = self._runner
        built = build_all(runner.task, [runner.task.baseline], runner.device, runner.stop)[0]
        if not isinstance(built, Build):
            raise BadInput(f"the baseline of {runner.task.name} does not build")
        return built


def swept(
    runner: Runner, built: Build, baseline: Build, oracle_cases: Sequence[OracleCase]
) -> SweepReport | Failure:
    """Call candidate and baseline on these cases, whose inputs lie in one folder.

    Raises Cancelled.
    """
    plans, beside = (all_or_failure(runner.plans(b, oracle_cases)) for b in (built, baseline))
    if not isinstance(plans, list):
        return plans
    if not isinstance(beside, list):
        return beside
    batch = Batch(
        built, oracle_cases, "check", "cuda", baseline, plans=plans, baseline_plans=beside
    )
    folders = (built.folder, baseline.folder, oracle_cases[0].inputs.parent)
    first = oracle_cases[0].case
    with (
        runner.process("check", lambda s: runner.policy(folders, s), CHILD) as process,
        runner.leased("check", alone=False),
    ):
        try:
            asked = SweepRequest(**dict(runner.asked(batch, process)))
            process.worker.ask(asked.model_dump(mode="json"), TIMEOUT_S, runner.stop)
            reports = list(process.worker.reports())
            end = process.worker.finish()
        except StepTimeout:
            return TimedOut(step="check", limit_s=TIMEOUT_S)
        except StepMemory:
            message = "a sweep held more than half of this machine's memory and was killed"
            return Crashed(case=first, message=message)
    try:
        fields = {name: value for name, value in reports[0].items() if name != "kind"}
        return SweepReport.model_validate(fields)
    except (IndexError, ValidationError):
        message = f"a sweep's process was {signal_name(end.returncode)}; {last_line(end.output)}"
        return Crashed(case=first, message=message)


def _to_judge(doubtful: list[OracleCase]) -> list[OracleCase]:
    """Those of them that the oracle judges: of special values last, on which right kernels may
    differ."""
    special = [t for t in doubtful if "special" in (t.case.values, *t.case.families.values())]
    others = [t for t in doubtful if t not in special]
    return [*others, *special][:MAX_JUDGED]
