"""The judge: one candidate in, one evaluation out. Independent of the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.building import Builder
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compute_sanitizer import TOOLS, Found
from astra_chat.tools.check.hidden_cases import Weighted, heaviest, reseeded
from astra_chat.tools.check.launch_limits import LargestCalls
from astra_chat.tools.check.winner import winner_fault
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.evidence import evidence
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.mutation.seeded_sources import SeededSources
from astra_chat.tools.overloaded_machine import unhurried
from astra_chat.tools.prefetch import Prefetch
from astra_chat.tools.profiling.counts import counted, counted_reports
from astra_chat.tools.profiling.ncu_cross_check import cross_check
from astra_chat.tools.profiling.profile import profile_gpu, profile_virtual, unprofiled
from astra_chat.tools.progress import Progress
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.steps import Steps
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.timing.verdict import TimedCase, time_cases, timed_outcome
from astra_chat.tools.types import (
    AnyTime,
    BuildFailed,
    Case,
    Correct,
    Device,
    Implausible,
    Outcome,
    Profile,
    Refused,
    StepName,
    TimedOut,
    Wrong,
    candidate_id,
)
from astra_chat.tools.virtual_gpu.adapter import Engine
from astra_vgpu.ground.errors import BadInput, MissingDependency

CASE_LISTS = ("demo", "bench")


class Judge:
    """Guards, builds, checks, times and profiles candidates of one task on one device.

    All methods block until `cancel`, after which they raise Cancelled. The kernel's faults are
    values; exceptions are the machine's or ours."""

    def __init__(
        self,
        task: Task,
        device: Device,
        *,
        tier: str = "sglang",
        cases: str | None = None,
        trust: bool = False,
        engine: Engine = "auto",
        entropy: Entropy | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """`tier` names the baseline (TIER_FILES); `cases` the list to time (CASE_LISTS).

        None means bench on a real GPU and demo on the virtual one. `trust` lets untrusted code
        run where the machine cannot isolate it (task/trust.py). All that is drawn comes from
        `entropy`. Raises BadInput, and MissingDependency where an untrusted task is not trusted.
        """
        self._trust = trust
        self.entropy = entropy or Entropy()
        self.task, self.device, self.tier, self.on_progress = task, device, tier, on_progress
        self.stop = Stop()
        self._builder = Builder(
            task, tier, device, self.stop, lambda done: self._tell("build", done, 1, "nvcc")
        )
        self.baseline = self._builder.baseline
        require_trust(trust, self.baseline, *acting_files(task))
        self.weighted: Weighted = getattr(
            task, cases or ("bench" if device.kind == "cuda" else "demo")
        )
        self._oracle = Oracle(task)
        self._runner = Runner(
            task,
            device,
            self.stop,
            engine,
            seed=self.entropy.cases,
            on_wait=lambda step, words: self._tell(step, 0, 1, words),
        )
        self._checker = Checker(self._runner, self._oracle, self.entropy)
        self._largest = LargestCalls()
        self._seeded = SeededSources(task, self._oracle, self.stop, self.entropy, self._tell)
        self._prefetch = Prefetch(
            task, device, self.weighted, self._builder, self._runner, self._oracle, self._checker
        )

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the inputs and expected outputs that this judge made."""
        self.stop.set()
        self._prefetch.background.wait()
        self._runner.dismiss()
        self._oracle.close()

    def prepare(self) -> None:
        """Begin what the first evaluation needs besides its own candidate."""
        self._prefetch.background.start()

    def cancel(self) -> None:
        """Stop the running step from another thread."""
        self.stop.set()

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        """Guard and build; executes nothing of the candidate.

        `also`: sources that will be asked for next; they are built at the same time.
        """
        steps = Steps()
        built = self._built(source, steps, also)
        result = Built(resources=built.resources) if isinstance(built, Build) else built
        return BuildReport(candidate=candidate_id(source), result=result, steps=steps.done())

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        """All steps, on the task's check cases and the extra ones; builds come from the cache.

        The best of many measurements has a selection bias: a winner is evaluated once more with
        `fresh_seeds` for the timed cases, after the sanitizers.
        """
        if self.device.kind == "cuda" and source != self.baseline:
            self.prepare()  # beside nvcc; a virtual GPU would take its cores
        found = self._evaluated(source, extra_cases, fresh_seeds)
        if self.device.kind == "cuda" and source != self.baseline:
            found = unhurried(
                found,
                lambda: self.check(self.baseline),
                lambda: self._evaluated(source, extra_cases, fresh_seeds),
            )
        return found.model_copy(update={"confirms": fresh_seeds})

    def _evaluated(self, source: str, extra_cases: Sequence[Case], fresh_seeds: bool) -> Evaluation:
        steps = Steps(self.entropy.evaluation(candidate_id(source)), self._runner.gpu)
        weighted = reseeded(self.weighted, steps.seed) if fresh_seeds else self.weighted
        steps.timed = [case for case, _ in weighted]
        built = self._built(source, steps, timed=steps.timed)
        if not isinstance(built, Build):
            return self._evaluation(source, built, steps)
        if fresh_seeds:
            self._prefetch.confirmation()
        if failure := self._planned(built, steps.timed, steps):
            return self._evaluation(source, failure, steps, built)
        correct = self._checked(built, extra_cases, steps, confirming=fresh_seeds)
        if not isinstance(correct, Correct):
            return self._evaluation(source, correct, steps, built)
        if fresh_seeds and (unsafe := self._sanitized(built, weighted, steps)):
            return self._evaluation(source, unsafe, steps, built)
        timed = self._timed(built, weighted, steps, cross_checked=fresh_seeds)
        if not isinstance(timed, list):
            return self._evaluation(source, timed, steps, built)
        profiles = self._profiled(built, weighted, timed, steps)
        if not isinstance(profiles, list):
            return self._evaluation(source, profiles, steps, built)
        outcome = timed_outcome(correct, [t.time for t in timed], profiles, heaviest(weighted))
        return self._evaluation(source, outcome, steps, built)

    def check(self, source: str, extra_cases: Sequence[Case] = ()) -> Evaluation:
        """Guard, build and check only."""
        steps = Steps(self.entropy.evaluation(candidate_id(source)), self._runner.gpu)
        built = self._built(source, steps, timed=())
        if not isinstance(built, Build):
            return self._evaluation(source, built, steps)
        failure = self._planned(built, (), steps)
        outcome = failure or self._checked(built, extra_cases, steps)
        return self._evaluation(source, outcome, steps, built)

    def require_judged(self, cases: Sequence[Case]) -> None:
        """Raises BadInput where the baseline fails on one of these cases that somebody gave."""
        self._checker.require_judged(cases)

    def time(self, source: str, weighted: Weighted) -> list[AnyTime] | Outcome:
        """Guard, build and time only, on these cases, whose results are compared; no verdict."""
        steps = Steps(self.entropy.timing(candidate_id(source)), self._runner.gpu)
        built = self._built(source, steps)
        if not isinstance(built, Build):
            return built
        self._prefetch.timers()
        timed = self._timed(built, weighted, steps)
        return [one.time for one in timed] if isinstance(timed, list) else timed

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        """Which of so many seeded bugs of the baseline the task's own cases kill, and these. `also`
        is a correct candidate's source, whose bugs count beside them."""
        return self._seeded.score(cases, mutants, self.baseline, also)

    def profile(self, source: str, case: Case | None = None) -> Profile | Evaluation:
        """Guard, build and profile only, on `case` or on that of greatest weight; an Evaluation
        where the kernel did not get that far."""
        steps = Steps(self.entropy.evaluation(candidate_id(source)), self._runner.gpu)
        built = self._built(source, steps)
        if not isinstance(built, Build):
            return self._evaluation(source, built, steps)
        chosen = ((case, 1.0),) if case else (self.weighted[heaviest(self.weighted)],)
        timed = self._timed(built, chosen, steps) if self.device.kind == "virtual" else []
        if not isinstance(timed, list):
            return self._evaluation(source, timed, steps, built)
        profiles = self._profiled(built, chosen, timed, steps)
        if isinstance(profiles, list):
            return profiles[0]
        return self._evaluation(source, profiles, steps, built)

    def _evaluation(
        self, source: str, outcome: Outcome, steps: Steps, built: Build | None = None
    ) -> Evaluation:
        self._runner.dismiss()
        return Evaluation(
            candidate=candidate_id(source),
            device=self.device,
            outcome=outcome,
            resources=built.resources if built else (),
            steps=steps.done(),
            check=steps.record,
            seed=steps.seed.text,
            evidence=steps.evidence,
        )

    def _built(
        self,
        source: str,
        steps: Steps,
        also: Sequence[str] = (),
        timed: Sequence[Case] | None = None,
    ) -> Build | Refused | BuildFailed | TimedOut:
        """`timed`: what will be timed after the check; None where it will not be run."""
        require_trust(self._trust, source)
        if refused := self._builder.guard(source, steps):
            return refused
        self._oracle.require_sound(self.stop)
        if self.device.kind == "virtual" or source == self.baseline:
            self._prefetch.background.wait()
        self._prefetch.beside_build(timed)
        built = self._builder.build(source, steps, also, self._prefetch.background)
        if isinstance(built, Build):
            self._prefetch.processes(timed)  # the baseline's own check may have taken one
        return built

    def _planned(self, built: Build, timed: Sequence[Case], steps: Steps) -> Failure | None:
        """Records launches on the timed cases, the task's own and the largest legal calls."""
        self._tell("plan", 0, 1, "recording launches")
        with steps.step("plan"):
            runner, own = self._runner.seeded(steps.seed.of("plan")), self._checker.own
            baseline = self._builder.baseline_build() if timed else None
            largest = self._largest.of(runner, baseline) if baseline else []
            plans = all_or_failure(runner.record(built, [*own, *timed, *largest]))
            if not isinstance(plans, list):
                return plans
            beside = all_or_failure(runner.record(baseline, timed)) if baseline else []
            if not isinstance(beside, list):
                what = f"the {self.tier} baseline of {self.task.name} cannot be run"
                raise BadInput(f"{what}: {describe(beside)}")
            shown = plans[len(own) :][: len(timed)] if timed else plans
            steps.evidence = evidence(self.device, built, shown, baseline, beside)
        steps.note(self._largest.note)
        return None

    def _checked(
        self, built: Build, extra_cases: Sequence[Case], steps: Steps, *, confirming: bool = False
    ) -> Correct | Wrong | Failure:
        with steps.step("check"):
            outcome, steps.record = self._checker.check(
                built,
                extra_cases,
                lambda *progress: self._tell("check", *progress),
                steps.seed,
                timed=steps.timed,
                confirming=confirming,
            )
        return outcome

    def _sanitized(self, built: Build, weighted: Weighted, steps: Steps) -> Found | Refused | None:
        """The virtual GPU has checked all of its cases."""
        if self.device.kind == "virtual":
            return None
        with steps.step("sanitize"):
            return winner_fault(
                self._runner.seeded(steps.seed.of("sanitize")),
                built,
                self._builder.baseline_build(),
                self._oracle,
                self._checker.own,
                [case for case, _ in weighted],
                lambda cases: self._oracle_cases("sanitize", cases),
                lambda done: self._tell("sanitize", done, len(TOOLS), "Compute Sanitizer"),
            )

    def _timed(
        self, built: Build, weighted: Weighted, steps: Steps, *, cross_checked: bool = False
    ) -> list[TimedCase] | Wrong | Implausible | Failure:
        words = ""
        with steps.step("time"):
            cases = self._oracle_cases("time", [case for case, _ in weighted])
            weights = [weight for _, weight in weighted]
            baseline = self._builder.baseline_build()
            how = "estimated" if self.device.kind == "virtual" else "measured"
            runner = self._runner.seeded(steps.seed.of("time"))
            timed = time_cases(
                runner,
                self._oracle,
                built,
                baseline,
                list(zip(cases, weights, strict=True)),
                lambda done: self._tell("time", done, len(cases), how),
                self._checker.baseline_errors,
                self._checker.learn,
            )
            if cross_checked and self.device.kind == "cuda" and isinstance(timed, list):
                self._tell("time", len(cases), len(cases), "Nsight Compute's durations")
                timed, words = cross_check(runner, built, baseline, cases, timed)
        steps.note(words)
        return timed

    def _profiled(
        self, built: Build, weighted: Weighted, timed: list[TimedCase], steps: Steps
    ) -> list[Profile] | Wrong | Implausible | Failure:
        """Profiles of these cases, in their order. Where Nsight Compute cannot be used, a poorer
        one of that of greatest weight; and that without `timed`, too, which is empty where a
        profile alone is asked for."""
        with steps.step("profile"):
            cases = self._oracle_cases("profile", [case for case, _ in weighted])
            self._tell("profile", 0, 1, f"{len(cases)} cases")
            runner = self._runner.seeded(steps.seed.of("profile"))
            if self.device.kind == "virtual":
                return [
                    profile_virtual(runner, built, case, one.report)
                    for case, one in zip(cases, timed, strict=True)
                ]
            try:
                return profile_gpu(runner, built, cases, [one.time.median_us for one in timed])
            except MissingDependency as error:
                reason = str(error)
        first = heaviest(weighted)
        if timed:
            return [unprofiled(timed[first].time, reason)]
        measured = self._timed(built, (weighted[first],), steps)
        if not isinstance(measured, list):
            return measured
        time, (report,) = measured[0].time, counted_reports(runner, built, [cases[first]])
        return [counted(time, report, reason) if report else unprofiled(time, reason)]

    def _oracle_cases(self, step: StepName, cases: Sequence[Case]) -> list[OracleCase]:
        return self._oracle.oracle_cases(
            cases, self.stop, lambda made: self._tell(step, 0, len(cases), f"oracle: {made} made")
        )

    def _tell(self, step: StepName, done: int, total: int, text: str) -> None:
        self.on_progress(Progress(step=step, done=done, total=total, text=text))
