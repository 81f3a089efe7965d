"""One evaluation under way: the steps in their order, each with its time, up to its outcome."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from astra_chat.tools.build.nvcc import Build, build_all, require_build
from astra_chat.tools.check.calls import with_last_store
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compute_sanitizer import TOOLS, Found
from astra_chat.tools.check.hidden_cases import Weighted, heaviest
from astra_chat.tools.check.launch_limits import LargestCalls
from astra_chat.tools.check.winner import winner_fault
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.evaluation import CaseLaunches, CheckRecord, Evaluation, Evidence, Step
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.language import is_triton, language_of
from astra_chat.tools.new.unjudged_functions import changed_functions
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.policy.binary_audit import audit_beside
from astra_chat.tools.policy.source_guard import guard_beside, in_short
from astra_chat.tools.prefetch import Prefetch
from astra_chat.tools.profiling.ncu_cross_check import cross_check
from astra_chat.tools.profiling.profile import profile_gpu, profile_virtual
from astra_chat.tools.progress import ORACLE
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.system.gpu_use import GpuClock
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.task.trust import require_trust
from astra_chat.tools.timing.module_times import ModuleTime, time_beside_module
from astra_chat.tools.timing.verdict import TimedCase, early_ratio, time_cases, timed_outcome
from astra_chat.tools.triton.translated import MOST_BYTES, translated, triton_findings
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    Device,
    Finding,
    Implausible,
    Outcome,
    Profile,
    Refused,
    StepName,
    TimedOut,
    Wrong,
    candidate_id,
)
from astra_vgpu.ground.errors import BadInput


class Builder:
    """Guards, builds and audits sources of one task, each beside the baseline."""

    def __init__(
        self, task: Task, tier: str, device: Device, stop: Stop, tell: Callable[[int], None]
    ) -> None:
        """`tell` is called with 0 before nvcc runs and 1 after. Raises BadInput where the task has
        no such tier."""
        self.baseline = baseline_source(task, tier)
        self._task, self._tier, self._device = task, tier, device
        self._stop, self._tell = stop, tell

    def guard(self, source: str, steps: Steps) -> Refused | None:
        with steps.step("guard"):
            findings = self._findings(source)
        return Refused(gate="guard", findings=findings) if findings else None

    def build(
        self, source: str, steps: Steps, also: Sequence[str], ready: Background
    ) -> Build | Refused | BuildFailed | TimedOut:
        """Builds and audits a source that the guard let pass. The sources `also` are built at the
        same time where the guard lets them pass; `ready` may be building the baseline. Raises
        BadInput where the baseline does not build."""
        self._tell(0)
        with steps.step("build"):
            text = self._cuda(source)
            if not isinstance(text, str):
                return text
            ahead = [one for one in also if language_of(one) == "cuda" and not self._findings(one)]
            if ready.running:
                self._build([text, *ahead])
                ready.wait()
            baseline, built, *_ = self._build([self.baseline, text, *ahead])
        self._tell(1)
        known = self._required(baseline)
        if not isinstance(built, Build):
            return built
        steps.note("from the cache" if built.cached else "")
        with steps.step("audit"):  # the baseline is the task's own and trusted
            findings = self._audited(text, built, known) if source != self.baseline else ()
        return Refused(gate="audit", findings=findings) if findings else built

    def _findings(self, source: str) -> tuple[Finding, ...]:
        if is_triton(source):
            return in_short(triton_findings(source, self._task))
        return guard_beside(source, self._task, self.baseline)

    def _cuda(self, source: str) -> str | Refused | BuildFailed | TimedOut:
        """The source; of one in Triton its CUDA text, which the guard let pass as well."""
        if not is_triton(source):
            return source
        text = translated(source, self._task, self._device.arch, self._stop)
        if not isinstance(text, str):
            return text
        findings = guard_beside(text, self._task, self.baseline, MOST_BYTES)
        return Refused(gate="guard", findings=findings) if findings else text

    def _audited(self, source: str, built: Build, known: Build) -> tuple[Finding, ...]:
        found = audit_beside(built, self._task, source, known)
        return (*found, *changed_functions(built, self._task, source, known))

    def baseline_build(self) -> Build:
        """Builds the baseline. Raises BadInput where that fails."""
        return self._required(self._build([self.baseline])[0])

    def _build(self, sources: Sequence[str]) -> list[Build | BuildFailed | TimedOut]:
        return build_all(self._task, sources, self._device, self._stop)

    def _required(self, baseline: Build | BuildFailed | TimedOut) -> Build:
        return require_build(baseline, f"the {self._tier} baseline of {self._task.name}")


class Steps:
    """What was done, from which seed, and how long it took."""

    def __init__(self, seed: Seed = NO_SEED, gpu: GpuClock | None = None) -> None:
        """`gpu`: the clock of the judge's leases, where it has a real GPU."""
        self.seed, self._gpu = seed, gpu
        self._steps: list[Step] = []

    @contextmanager
    def step(self, name: StepName) -> Iterator[None]:
        start = time.monotonic()
        yield
        seconds = time.monotonic() - start
        waited_s, use = self._gpu.taken() if self._gpu else (0.0, None)
        self._steps.append(Step(name=name, seconds=seconds, waited_s=waited_s, gpu=use))

    def note(self, text: str) -> None:
        self._steps[-1] = self._steps[-1].model_copy(update={"note": text})

    def done(self) -> tuple[Step, ...]:
        return tuple(self._steps)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all evaluations of one judge share."""

    task: Task
    device: Device
    tier: str
    trust: bool
    stop: Stop
    builder: Builder
    runner: Runner
    oracle: Oracle
    checker: Checker
    largest: LargestCalls
    prefetch: Prefetch
    tell: Callable[[StepName, int, int, str], None]
    remark: Callable[[str], None]
    """Called with what is known of a candidate before its verdict."""

    def oracle_cases(self, step: StepName, cases: Sequence[Case]) -> list[OracleCase]:
        """Inputs and results of these cases, for a step that waits for them."""
        return self.oracle.oracle_cases(
            cases, self.stop, lambda made: self.tell(step, made, len(cases), ORACLE)
        )


class SourceInWork:
    """A source that is evaluated, and what its steps found so far."""

    def __init__(self, bench: Bench, source: str, steps: Steps) -> None:
        self.bench, self.source, self.steps = bench, source, steps
        self.record: CheckRecord | None = None
        self.evidence: Evidence | None = None
        self.built: Build | None = None

    def result(self, outcome: Outcome) -> Evaluation:
        """The evaluation with this outcome."""
        return Evaluation(
            candidate=candidate_id(self.source),
            device=self.bench.device,
            outcome=outcome,
            resources=self.built.resources if self.built else (),
            steps=self.steps.done(),
            check=self.record,
            seed=self.steps.seed.text,
            evidence=self.evidence,
        )


class Evaluating(SourceInWork):
    """One evaluation of a source. What a step finds wrong is its outcome, and the last one."""

    def __init__(self, bench: Bench, source: str, seed: Seed = NO_SEED) -> None:
        super().__init__(bench, source, Steps(seed, bench.runner.gpu))

    def result(self, outcome: Outcome) -> Evaluation:
        """The evaluation with this outcome; processes that wait for more are dismissed."""
        self.bench.runner.dismiss()
        return super().result(outcome)

    def all_steps(
        self, weighted: Weighted, extra_cases: Sequence[Case], *, confirming: bool
    ) -> Outcome:
        """From the source to the verdict; `confirming`: as of a winner."""
        timed_cases = [case for case, _ in weighted]
        built = self.build(timed=timed_cases)
        if not isinstance(built, Build):
            return built
        if confirming:
            self.bench.prefetch.confirmation()
        if failure := self.plan(built, timed_cases):
            return failure
        correct = self.check(
            built,
            extra_cases,
            timed_cases,
            confirming=confirming,
            before=lambda: self._tell_early(built, weighted[heaviest(weighted)][0], confirming),
        )
        if not isinstance(correct, Correct):
            return correct
        if confirming and (unsafe := self.sanitize(built, weighted)):
            return unsafe
        timed = self.time(built, weighted, cross_checked=confirming)
        if not isinstance(timed, list):
            return timed
        profiles = self.profile(built, weighted, timed, thorough=confirming)
        if not isinstance(profiles, list):
            return profiles
        return timed_outcome(correct, [t.time for t in timed], profiles, heaviest(weighted))

    def build(
        self, also: Sequence[str] = (), timed: Sequence[Case] | None = None
    ) -> Build | Refused | BuildFailed | TimedOut:
        """`timed`: what will be timed after the check; None where it will not be run."""
        bench, prefetch = self.bench, self.bench.prefetch
        require_trust(bench.trust, self.source)
        if refused := bench.builder.guard(self.source, self.steps):
            return refused
        bench.oracle.require_sound(bench.stop)
        if bench.device.kind == "virtual" or self.source == bench.builder.baseline:
            prefetch.background.wait()
        prefetch.beside_build(timed)
        built = bench.builder.build(self.source, self.steps, also, prefetch.background)
        if isinstance(built, Build):
            self.built = built
            prefetch.processes(timed)  # the baseline's own check may have taken one
        return built

    def plan(self, built: Build, timed: Sequence[Case]) -> Failure | None:
        """Records launches on the timed cases, the task's own and the largest legal calls."""
        bench = self.bench
        bench.tell("plan", 0, 1, "recording launches")
        with self.steps.step("plan"):
            runner, own = bench.runner.seeded(self.steps.seed.of("plan")), bench.checker.own
            baseline = bench.builder.baseline_build() if timed else None
            largest = bench.largest.of(runner, baseline) if baseline else []
            plans = all_or_failure(runner.record(built, [*own, *timed, *largest]))
            if not isinstance(plans, list):
                return plans
            beside = all_or_failure(runner.record(baseline, timed)) if baseline else []
            if not isinstance(beside, list):
                what = f"the {bench.tier} baseline of {bench.task.name} cannot be run"
                raise BadInput(f"{what}: {describe(beside)}")
            shown = plans[len(own) :][: len(timed)] if timed else plans  # else the task's own
            self.evidence = evidence(bench.device, built, shown, baseline, beside)
        self.steps.note(bench.largest.note)
        return None

    def check(
        self,
        built: Build,
        extra_cases: Sequence[Case],
        timed: Sequence[Case] = (),
        *,
        confirming: bool = False,
        before: Callable[[], None] = lambda: None,
    ) -> Correct | Wrong | Failure:
        """`before` is called first, as a part of this step."""
        with self.steps.step("check"):
            before()
            outcome, self.record = self.bench.checker.check(
                built,
                extra_cases,
                lambda *progress: self.bench.tell("check", *progress),
                self.steps.seed,
                timed=timed,
                confirming=confirming,
            )
            if isinstance(outcome, Wrong):
                runner = self.bench.runner.seeded(self.steps.seed.of("check"))
                outcome = with_last_store(runner, built, self.bench.oracle, outcome)
        return outcome

    def _tell_early(self, built: Build, case: Case, confirming: bool) -> None:
        """Reports an estimate on one case while the check, which takes much longer, is still to
        come. Nothing is decided by it, no real GPU is held for it, and of a winner it is known."""
        bench = self.bench
        if confirming or bench.device.kind == "cuda" or self.source == bench.builder.baseline:
            return
        bench.tell("time", 0, 1, f"a first estimate on {case.label}")
        runner = bench.runner.seeded(self.steps.seed.of("time"))
        ratio = early_ratio(
            runner, built, bench.builder.baseline_build(), *bench.oracle_cases("time", [case])
        )
        if ratio is not None:
            bench.remark(
                f"estimated {ratio:.2f}x the baseline's speed on {case.label}, not checked yet"
            )

    def sanitize(self, built: Build, weighted: Weighted) -> Found | Refused | None:
        """The virtual GPU has checked all of its cases."""
        if self.bench.device.kind == "virtual":
            return None
        with self.steps.step("sanitize"):
            return winner_fault(
                self.bench.runner.seeded(self.steps.seed.of("sanitize")),
                built,
                self.bench.builder.baseline_build(),
                self.bench.oracle,
                self.bench.checker.own,
                [case for case, _ in weighted],
                lambda cases: self.bench.oracle_cases("sanitize", cases),
                lambda done: self.bench.tell("sanitize", done, len(TOOLS), "Compute Sanitizer"),
            )

    def time(
        self, built: Build, weighted: Weighted, *, cross_checked: bool = False
    ) -> list[TimedCase] | Wrong | Implausible | Failure:
        words = ""
        with self.steps.step("time"):
            cases = self.bench.oracle_cases("time", [case for case, _ in weighted])
            weights = [weight for _, weight in weighted]
            baseline = self.bench.builder.baseline_build()
            how = "estimated" if self.bench.device.kind == "virtual" else "measured"
            runner = self.bench.runner.seeded(self.steps.seed.of("time"))
            timed = time_cases(
                runner,
                self.bench.oracle,
                built,
                baseline,
                list(zip(cases, weights, strict=True)),
                lambda done: self.bench.tell("time", done, len(cases), how),
                self.bench.checker.baseline_errors,
                self.bench.checker.learn,
            )
            if cross_checked and self.bench.device.kind == "cuda" and isinstance(timed, list):
                self.bench.tell("time", len(cases), len(cases), "Nsight Compute's durations")
                timed, words = cross_check(runner, built, baseline, cases, timed)
        self.steps.note(words)
        return timed

    def time_beside_module(
        self, built: Build, weighted: Weighted, compilations: int, mode: str
    ) -> list[ModuleTime] | Wrong | Failure:
        """PyTorch's ways of the task's module beside a build, as time_beside_module."""
        count = len(weighted) * (1 + compilations)
        with self.steps.step("time"):
            cases = self.bench.oracle_cases("time", [case for case, _ in weighted])
            return time_beside_module(
                self.bench.runner.seeded(self.steps.seed.of("time")),
                self.bench.oracle,
                built,
                [(one, weight) for one, (_, weight) in zip(cases, weighted, strict=True)],
                compilations,
                mode,
                lambda done: self.bench.tell("time", done, count, "beside PyTorch"),
            )

    def profile(
        self, built: Build, weighted: Weighted, timed: list[TimedCase], *, thorough: bool
    ) -> list[Profile] | Failure:
        """Profiles of these cases, in their order. `thorough`: by all metrics of Nsight Compute.

        Raises MissingDependency where a GPU gives no counters and `timed` is empty, as where a
        profile alone is asked for.
        """
        words = ""
        with self.steps.step("profile"):
            cases = self.bench.oracle_cases("profile", [case for case, _ in weighted])
            self.bench.tell("profile", 0, 1, "looking for the bottleneck")
            runner = self.bench.runner.seeded(self.steps.seed.of("profile"))
            found: list[Profile] | Failure
            if self.bench.device.kind == "virtual":
                found = [
                    profile_virtual(runner, built, case, one.report)
                    for case, one in zip(cases, timed, strict=True)
                ]
            else:
                times = [one.time for one in timed]
                found, words = profile_gpu(runner, built, cases, times, thorough=thorough)
        self.steps.note(words)
        return found


def evidence(
    device: Device,
    built: Build,
    plans: Sequence[LaunchPlan],
    baseline: Build | None = None,
    beside: Sequence[LaunchPlan] = (),
) -> Evidence:
    """`plans` of the candidate, and `beside` them those of the baseline for the same cases, where
    it is timed."""
    hashes = [plan.sha256 for plan in beside] or [""] * len(plans)
    return Evidence(
        judge_sha256=judge_sha256(),
        cubin_sha256=_of_file(built),
        baseline_cubin_sha256=_of_file(baseline) if baseline else "",
        plans=tuple(
            CaseLaunches(
                case=plan.case,
                launches=plan.summary,
                plan_sha256=plan.sha256,
                baseline_plan_sha256=of_baseline,
            )
            for plan, of_baseline in zip(plans, hashes, strict=True)
        ),
        device_facts={fact.name: fact.value for plan in plans for fact in plan.facts},
        gpu=gpu_properties(device.index) if device.kind == "cuda" else {},
    )


@cache
def gpu_properties(index: int) -> dict[str, str]:
    """What NVML says about a GPU that measured; what it does not know is left out."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        gpu = gpu_handles()[index]
        asked: dict[str, Callable[[], Any]] = {
            "driver": lambda: pynvml.nvmlSystemGetDriverVersion(),
            "cuda_driver": lambda: pynvml.nvmlSystemGetCudaDriverVersion_v2(),
            "memory_bytes": lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu).total,
            "ecc": lambda: pynvml.nvmlDeviceGetEccMode(gpu)[0],
            "max_sm_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            "max_memory_clock_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(
                gpu, pynvml.NVML_CLOCK_MEM
            ),
            "power_limit_mw": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
        }
        properties = dict[str, str]()
        for name, ask in asked.items():
            with contextlib.suppress(pynvml.NVMLError):
                properties[name] = str(ask())
        return properties
    return {}


def _of_file(built: Build) -> str:
    return hashlib.sha256(built.cubin.read_bytes()).hexdigest()
