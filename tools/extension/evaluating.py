"""The steps of one evaluation of a torch extension, in their order: guard, build, audit of the
library, check by the contract's cases and by questions, time by turns with the module.

There is no launch plan, no sanitizer and no profile. On the virtual GPU an extension is
unsupported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.hidden_cases import Weighted, draw, heaviest, unique
from astra_chat.tools.descriptions import describe
from astra_chat.tools.extension.build import ExtensionBuild, build_extension, library_findings
from astra_chat.tools.extension.guard import extension_findings
from astra_chat.tools.extension.questions import NOTED, TRUST, Questioned, questioned
from astra_chat.tools.extension.turns import TimedTurns
from astra_chat.tools.profiling.profile import unprofiled
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.timing.gpu_samples import case_limit_us
from astra_chat.tools.timing.module_times import ModuleTime, time_beside_eager
from astra_chat.tools.timing.verdict import timed_outcome
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    Crashed,
    Implausible,
    MeasuredTime,
    Outcome,
    Refused,
    TimedOut,
    Unsupported,
    Wrong,
)
from astra_vgpu.ground.errors import BadInput

if TYPE_CHECKING:
    from astra_chat.tools.judge_steps import Evaluating

ON_VIRTUAL = (
    "a torch extension runs only on a real GPU: judge it there (--device cuda, or --judge detached"
    " with a worker on a machine with a GPU)"
)
NO_PROFILE = "a torch extension is not profiled: its launches are not recorded"
MOST_HIDDEN = 24
"""Drawn cases that an extension is called with, beside the task's own."""
COMPILATIONS, MODE = 2, "default"
"""What an evaluation's note compares with; `astra-chat torch` asks for others."""


class EvaluatedExtension:
    """One evaluation of a torch extension."""

    def __init__(self, work: Evaluating) -> None:
        self._work, self._bench, self._task = work, work.bench, work.bench.task
        self.rows: list[ModuleTime] = []
        """Times beside the module, once they are measured."""

    def build(self) -> ExtensionBuild | Refused | BuildFailed | TimedOut:
        """Guard, build and audit: executes nothing of the candidate."""
        steps, source, device = self._work.steps, self._work.source, self._bench.device
        if refused := self.guard():
            return refused
        self._bench.tell("build", 0, 1, "nvcc, with PyTorch's headers")
        with steps.step("build"):
            built = build_extension(self._task, source, device.arch, self._bench.stop)
        if not isinstance(built, ExtensionBuild):
            return built
        steps.note("from the cache" if built.cached else "")
        with steps.step("audit"):
            findings = library_findings(built, source)
        return Refused(gate="audit", findings=findings) if findings else built

    def guard(self) -> Refused | None:
        with self._work.steps.step("guard"):
            findings = extension_findings(self._work.source, self._task)
        return Refused(gate="guard", findings=findings) if findings else None

    def outcome(
        self,
        weighted: Weighted,
        extra: Sequence[Case] = (),
        *,
        compilations: int = COMPILATIONS,
        mode: str = MODE,
    ) -> Outcome:
        """From the source to the verdict; without cases to time, to a correct candidate."""
        if self._bench.device.kind == "virtual":
            none = Unsupported(what=ON_VIRTUAL, kernel="", opcode="", line=0)
            return self.guard() or none
        built = self.build()
        if not isinstance(built, ExtensionBuild):
            return built
        self._bench.oracle.require_sound(self._bench.stop)
        timed = [one for one, _ in weighted]
        how = {"compilations": compilations if timed else 0, "mode": mode}
        with self._asked(built, timed, extra, how) as (asked, hidden):
            correct = asked.fault(self._task) or self._compared(asked, hidden)
            if not isinstance(correct, Correct) or not timed:
                return correct
            self._work.steps.note(_noted(asked.found))
            with self._work.steps.step("time"):
                return self._timed(asked, correct, weighted, compilations)

    @contextmanager
    def _asked(
        self,
        built: ExtensionBuild,
        timed: Sequence[Case],
        extra: Sequence[Case],
        how: Mapping[str, Any],
    ) -> Iterator[tuple[Questioned, set[str]]]:
        """Both processes' answers, and the keys of the drawn cases."""
        bench, seed = self._bench, self._work.steps.seed
        drawn = draw(self._task, "virtual", seed.of("hidden cases").random())[:MOST_HIDDEN]
        cases = unique([*extra, *bench.checker.own, *drawn])
        oracle_cases = bench.oracle_cases("check", [*cases, *timed])
        index = bench.device.index
        asked = {**how, "device": f"cuda:{index}", "seed": seed.of("questions").text}
        bench.tell("check", 0, 1, "two isolated processes")
        asking = questioned(
            self._task,
            built.library,
            oracle_cases[: len(cases)],
            oracle_cases[len(cases) :],
            asked,
            bench.stop,
        )
        with ExitStack() as left:
            with self._work.steps.step("check"), bench.runner.leased("check", alone=bool(timed)):
                found = left.enter_context(asking)
            yield found, {case.key for case in drawn}

    def _compared(self, asked: Questioned, hidden: set[str]) -> Correct | Wrong:
        """Results of all cases beside the oracle's; a drawn case that the baseline fails is left
        out."""
        worst, left_out, drawn = 0.0, 0, 0
        for number, run in enumerate(asked.runs[: asked.cases]):
            verdict = asked.wrong(self._task, number)
            is_drawn = run.oracle_case.case.key in hidden
            if isinstance(verdict, Wrong):
                if not is_drawn or self._baseline_right(run.oracle_case):
                    return verdict
                left_out += 1
            else:
                worst, drawn = max(worst, verdict), drawn + is_drawn
        return Correct(cases=asked.cases - left_out, worst=worst, hidden=drawn, left_out=left_out)

    def _baseline_right(self, oracle_case: OracleCase) -> bool:
        self._bench.prefetch.background.wait()
        run = self._bench.runner.run(self._bench.builder.baseline_build(), [oracle_case], "check")
        found = next(iter(run))
        if not isinstance(found, CaseRun):
            return False
        try:
            return not isinstance(compare(self._task, found), Wrong)
        finally:
            found.remove()

    def _timed(
        self, asked: Questioned, correct: Correct, weighted: Weighted, compilations: int
    ) -> Outcome:
        """The verdict on times over the task's baseline, and `rows` beside the module's."""
        bench, runs = self._bench, asked.runs[asked.cases :]
        turns = [TimedTurns(one) for one in asked.found["turns"]]
        for number, (run, turn) in enumerate(zip(runs, turns, strict=True), asked.cases):
            case, floor = run.oracle_case.case, case_limit_us(bench.runner, run.oracle_case)
            if said := turn.found["failed"]:
                return Crashed(case=case, message=said)
            if why := turn.implausible(floor):
                return Implausible(case=case, median_us=turn.candidate_us, why=why)
            if isinstance(wrong := asked.wrong(self._task, number), Wrong):
                return wrong.model_copy(update={"note": "in a timed call"})
            self.rows += turn.rows(case, compilations)
        weights = [weight for _, weight in weighted]
        oracle_cases = [run.oracle_case for run in runs]
        bench.tell("time", 0, 1, "the baseline and eager PyTorch")
        baseline = self._baseline(list(zip(oracle_cases, weights, strict=True)))
        if not isinstance(baseline, list):
            raise BadInput(
                f"the baseline of {self._task.name} cannot be timed alternately with eager PyTorch:"
                f" {describe(baseline)}"
            )
        times = [
            turn.measured(beside, _shares(self.rows, beside.case))
            for turn, beside in zip(turns, baseline, strict=True)
        ]
        profiles = [unprofiled(time, NO_PROFILE) for time in times]
        found = timed_outcome(correct, times, profiles, heaviest(weighted))
        return found.model_copy(update={"why": f"{found.why}; {_against(times)}"})

    def _baseline(
        self, weighted: Sequence[tuple[OracleCase, float]]
    ) -> list[MeasuredTime] | Wrong | Failure:
        """Times of the task's baseline by turns with eager, which the extension was timed with,
        too."""
        bench = self._bench
        bench.prefetch.background.wait()
        runner = bench.runner.seeded(self._work.steps.seed.of("time"))
        found = time_beside_eager(runner, bench.oracle, bench.builder.baseline_build(), weighted)
        if not isinstance(found, list):
            return found
        if said := next((one for one in found if isinstance(one, str)), ""):
            raise BadInput(f"eager PyTorch on {self._task.name} cannot be timed: {said}")
        return [one for one in found if isinstance(one, MeasuredTime)]


def _noted(found: Mapping[str, Any]) -> str:
    """What is no fault, but for a reader to know."""
    known = dict(found["findings"])
    said = [f"{NOTED[name]}: {text}" for name, text in known.items() if name in NOTED]
    return "; ".join([TRUST, *said])


def _shares(rows: Sequence[ModuleTime], case: Case) -> str:
    """The extension beside each of the module's ways, as text."""
    said = [
        f"{row.baseline} {row.times.us:.2f} us ({row.times.ratio:.2f}x)"
        if row.times
        else f"{row.baseline} not run"
        for row in rows
        if row.case == case
    ]
    return f"compared with PyTorch: {', '.join(said)}"


def _against(times: Sequence[MeasuredTime]) -> str:
    """The notes of all timed cases, and that no plan is timed here."""
    slowest = max(times, key=lambda one: one.weight)
    name = slowest.case.label
    return f"a captured graph of a torch extension; on {name} {slowest.note}"
