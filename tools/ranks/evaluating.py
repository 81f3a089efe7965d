"""One evaluation of a kernel over several GPUs: the judge's steps, on all ranks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.hidden_cases import Weighted, heaviest
from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.judge_steps import Bench, SourceInWork, Steps, evidence
from astra_chat.tools.ranks.checks import (
    BASELINE,
    CALLS,
    CANDIDATE,
    VIRTUAL_CALLS,
    CheckSums,
    GroupCheck,
    cases_for,
    failure_of,
)
from astra_chat.tools.ranks.group import RankGroup, group_of
from astra_chat.tools.ranks.groups import RankNumbers, contract_of
from astra_chat.tools.ranks.plans import Planned, planned
from astra_chat.tools.ranks.requests import rank_requests
from astra_chat.tools.ranks.signals import signal_faults
from astra_chat.tools.ranks.times import CountedCase, measured, measured_profile
from astra_chat.tools.run.rank_messages import RankRequest, Samples
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.task.trust import require_trust
from astra_chat.tools.timing.verdict import timed_outcome
from astra_chat.tools.types import (
    AnyTime,
    Case,
    Correct,
    Finding,
    Outcome,
    Profile,
    Refused,
    candidate_id,
)
from astra_chat.tools.virtual_gpu.adapter import Estimate
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec

ROUNDS, CONFIRMING_ROUNDS = 20, 40
"""Samples of each side and case, two a round."""


@dataclass
class RanksBench:
    """What all evaluations of one judge share."""

    bench: Bench
    numbers: RankNumbers
    calls: int | None = None
    """Calls of a check; None: as many as is usual for the device."""
    after_start: Callable[[RankGroup], None] = lambda group: None
    known: dict[tuple[str, str], Estimate] = field(default_factory=dict)
    """The baseline's estimates, by build and case."""

    @property
    def usual_calls(self) -> int:
        """Calls of the check of one group."""
        if self.calls is not None:
            return self.calls
        return CALLS if self.bench.device.kind == "cuda" else VIRTUAL_CALLS


class RanksEvaluating(SourceInWork):
    """One evaluation. What a step finds wrong is its outcome, and the last one."""

    def __init__(self, shared: RanksBench, source: str, seed: Seed = NO_SEED) -> None:
        super().__init__(shared.bench, source, Steps(seed))
        self._shared = shared
        self._task, self._contract = self.bench.task, contract_of(self.bench.task)
        self._counts: list[CountedCase] = []

    def build(self, also: Sequence[str] = ()) -> Build | Outcome:
        """Guards, builds and audits the source, signals between ranks included."""
        require_trust(self.bench.trust, self.source)
        if refused := self.bench.builder.guard(self.source, self.steps):
            return refused
        built = self.bench.builder.build(self.source, self.steps, also, Background(lambda: None))
        if not isinstance(built, Build):
            return built
        if faults := signal_faults(built.ptx.read_text()):
            findings = tuple(Finding(line=1, what=f"between ranks, {what}") for what in faults)
            return Refused(gate="audit", findings=findings)
        self.built = built
        return built

    def all_steps(self, weighted: Weighted, extra: Sequence[Case], *, confirming: bool) -> Outcome:
        """From the source to the verdict; `confirming`: as of a winner."""
        built = self.build()
        if not isinstance(built, Build):
            return built
        virtual = self.bench.device.kind == "virtual"
        found = self.check(built, extra, weighted if virtual else ())
        if not isinstance(found, Correct):
            return found
        timed = self.estimated(weighted) if virtual else self.measured(built, weighted, confirming)
        if not isinstance(timed, tuple):
            return timed
        times, profiles = timed
        return timed_outcome(found, times, profiles, heaviest(weighted))

    def check(self, built: Build, extra: Sequence[Case], counted: Weighted = ()) -> Outcome:
        """Checks the build in every group; on virtual GPUs the cases `counted` are counted by the
        group that is timed."""
        sums = CheckSums()
        for ranks in self._shared.numbers.checked:
            timed = ranks == self._shared.numbers.timed
            last = [case for case, _ in counted] if timed else []
            failure = self._checked(built, ranks, extra, last, sums)
            if failure is not None:
                return failure
        self.record = sums.record
        return sums.correct

    def _checked(
        self, built: Build, ranks: int, extra: Sequence[Case], last: Sequence[Case], sums: CheckSums
    ) -> Outcome | None:
        bench, seed = self.bench, self.steps.seed.of("check")
        cases = cases_for(self._task, self._contract, ranks, bench.device, extra, seed)
        called = (*cases.all, *last)
        plans = self._planned(built, called, ranks)
        if not isinstance(plans, Planned):
            return plans
        usual = self._shared.usual_calls
        calls = max(len(cases.all), usual if ranks == self._shared.numbers.timed else usual // 3)
        check = GroupCheck(
            self._task,
            self._contract,
            bench.device,
            seed,
            bench.stop,
            lambda *progress: bench.tell("check", *progress),
            self._shared.after_start,
        )
        with self.steps.step("check"):
            failure = check.run(plans, called, ranks, calls, len(last))
        self.steps.note(f"{calls} calls on {ranks} ranks")
        if failure is not None:
            return failure
        sums.add(cases, calls, check)
        first = len(cases.all)
        self._counts += [
            CountedCase(self._task, bench.device, plans, first + at, by_rank)
            for at, by_rank in enumerate(check.counted)
        ]
        return None

    def _planned(self, built: Build, cases: Sequence[Case], ranks: int) -> Planned | Outcome:
        bench = self.bench
        with self.steps.step("plan"):
            plans = planned(
                built,
                self._task,
                cases,
                ranks,
                spec(bench.device.spec),
                self.steps.seed,
                bench.stop,
            )
        if isinstance(plans, Planned) and self.evidence is None:
            self.evidence = evidence(bench.device, built, plans.plans[0])
        return plans

    def estimated(self, weighted: Weighted) -> tuple[list[AnyTime], list[Profile]] | Outcome:
        """Estimates of the cases that the check counted, beside the baseline's."""
        baseline = self._baseline_estimates(weighted)
        times: list[AnyTime] = [
            counted.time(self._task, case, weight, beside)
            for counted, (case, weight), beside in zip(
                self._counts, weighted, baseline, strict=True
            )
        ]
        profiles = [
            counted.profile(self._task, case)
            for counted, (case, _) in zip(self._counts, weighted, strict=True)
        ]
        return times, profiles

    def _baseline_estimates(self, weighted: Weighted) -> list[Estimate]:
        """Counted once in a judge's life. Raises BadInput where the baseline fails."""
        known, name = self._shared.known, candidate_id(self.bench.builder.baseline)
        keys = [(name, case.key) for case, _ in weighted]
        if self.source == self.bench.builder.baseline:
            known.update(zip(keys, (one.estimate for one in self._counts), strict=True))
        elif any(key not in known for key in keys):
            own = RanksEvaluating(self._shared, self.bench.builder.baseline, self.steps.seed)
            built = self.bench.builder.baseline_build()
            found = own.counted_alone(built, weighted)
            if found is not None:
                raise BadInput(f"the baseline of {self._task.name} cannot be estimated: {found}")
            known.update(zip(keys, (one.estimate for one in own._counts), strict=True))
        return [known[key] for key in keys]

    def counted_alone(self, built: Build, weighted: Weighted) -> Outcome | None:
        """Counts these cases in the group that is timed, after one call. None where that works."""
        cases, ranks = [case for case, _ in weighted], self._shared.numbers.timed
        plans = self._planned(built, [cases[0], *cases], ranks)
        if not isinstance(plans, Planned):
            return plans
        check = GroupCheck(
            self._task,
            self._contract,
            self.bench.device,
            self.steps.seed,
            self.bench.stop,
            lambda *progress: self.bench.tell("time", *progress),
        )
        if failure := check.run(plans, [cases[0], *cases], ranks, 1, len(cases)):
            return failure
        self._counts = [
            CountedCase(self._task, self.bench.device, plans, 1 + at, by_rank)
            for at, by_rank in enumerate(check.counted)
        ]
        return None

    def measured(
        self, built: Build, weighted: Weighted, confirming: bool
    ) -> tuple[list[AnyTime], list[Profile]] | Outcome:
        """Times a build beside the baseline on GPUs."""
        samples = self.samples(built, weighted, CONFIRMING_ROUNDS if confirming else ROUNDS)
        if not isinstance(samples, list):
            return samples
        clock, task, device = _clock_mhz(self.bench.device.index), self._task, self.bench.device
        times = [
            measured(task, device, case, weight, [one[at].us for one in samples], clock)
            for at, (case, weight) in enumerate(weighted)
        ]
        return [*times], [measured_profile(time) for time in times]

    def samples(
        self, built: Build, weighted: Weighted, rounds: int
    ) -> list[list[Samples]] | Outcome:
        """Samples of each rank and case, by turns with the baseline."""
        ranks, cases = self._shared.numbers.timed, [case for case, _ in weighted]
        sides = {}
        for name, build in (
            (CANDIDATE, built),
            (BASELINE, self.bench.builder.baseline_build()),
        ):
            plans = self._planned(build, cases, ranks)
            if not isinstance(plans, Planned):
                return plans
            sides[name] = plans
        with self.steps.step("time"), tempfile.TemporaryDirectory(prefix="astra-ranks-") as folder:
            requests = rank_requests(
                RankRequest,
                self._task,
                self.bench.device,
                ranks,
                cases,
                sides,
                self.steps.seed,
                rounds=rounds,
                meeting=Path(folder) / "meeting",
            )
            with group_of(requests, self._contract.timeout_s) as group:
                ended = group.run(stop=self.bench.stop)
                samples = group.results(Samples)
        return samples if ended is None else failure_of(ended, cases[0])


def _clock_mhz(index: int) -> int:
    """The SM clock of a GPU now, according to NVML."""
    import pynvml

    return int(pynvml.nvmlDeviceGetClockInfo(gpu_handles()[index], pynvml.NVML_CLOCK_SM))
