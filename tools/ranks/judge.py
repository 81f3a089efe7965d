"""The judge of kernels over several GPUs: the same calls and evaluations as of any other task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.hidden_cases import Weighted, heaviest, reseeded
from astra_chat.tools.entropy import NO_SEED
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.ranks.evaluating import RanksBench, RanksEvaluating
from astra_chat.tools.ranks.groups import numbers_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.module_times import BesideModule
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.tools.types import AnyTime, Case, Device, Outcome, Profile, candidate_id
from astra_vgpu.ground.errors import BadInput

UNSCORED = "seeded bugs are not supported on several GPUs"


class RanksJudge(TuningJudge):
    """Guards, builds, checks, times and profiles candidates of one task with ranks."""

    def __init__(self, task: Task, device: Device, **options: Any) -> None:
        """Options as of Judge. Raises also MissingDependency for too few GPUs."""
        numbers = numbers_of(task, device)
        super().__init__(task, device, **options)
        self.weighted = numbers.timed_cases(self.weighted)
        self.ranks = RanksBench(self._bench, numbers)

    def __enter__(self) -> RanksJudge:
        return self

    def prepare(self) -> None:
        """Nothing is begun ahead: ranks are processes of one group."""

    def time_only(self, cases: Sequence[Case]) -> None:
        """Time these from now on, each of the same weight. Raises BadInput for other ranks."""
        self.weighted = self.ranks.numbers.timed_cases([(case, 1.0) for case in cases])

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        """Guard and build; executes nothing of the candidate."""
        work = RanksEvaluating(self.ranks, source, NO_SEED)
        built = work.build(also)
        result: Any = Built(resources=built.resources) if isinstance(built, Build) else built
        return BuildReport(candidate=candidate_id(source), result=result, steps=work.steps.done())

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        """All steps; `fresh_seeds`: of a winner, once more."""
        work = self._begun_ranks(source)
        weighted = reseeded(self.weighted, work.steps.seed) if fresh_seeds else self.weighted
        found = work.result(work.all_steps(weighted, extra_cases, confirming=fresh_seeds))
        return found.model_copy(update={"confirms": fresh_seeds})

    def check(self, source: str, extra_cases: Sequence[Case] = ()) -> Evaluation:
        """Guard, build and check only."""
        work = self._begun_ranks(source)
        built = work.build()
        if not isinstance(built, Build):
            return work.result(built)
        return work.result(work.check(built, extra_cases))

    def require_judged(self, cases: Sequence[Case]) -> None:
        """Raises BadInput for a case outside the contract."""
        for case in cases:
            try:
                self.task.require_legal(case)
            except ValueError as error:
                raise BadInput(f"{case.named}: {error}") from None

    def time(self, source: str, weighted: Weighted) -> list[AnyTime] | Outcome:
        """Guard, build and time only; no verdict."""
        work = RanksEvaluating(self.ranks, source, self.entropy.timing(candidate_id(source)))
        built = work.build()
        if not isinstance(built, Build):
            return built
        found = self._times(work, built, self.ranks.numbers.timed_cases(weighted))
        return found[0] if isinstance(found, tuple) else found

    def profile(self, source: str, case: Case | None = None) -> Profile | Evaluation:
        """Guard, build and profile only, on `case` or on that of greatest weight."""
        work = self._begun_ranks(source)
        built = work.build()
        if not isinstance(built, Build):
            return work.result(built)
        asked = ((case, 1.0),) if case else (self.weighted[heaviest(self.weighted)],)
        found = self._times(work, built, self.ranks.numbers.timed_cases(asked))
        return found[1][0] if isinstance(found, tuple) else work.result(found)

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        """The tester's cases without scores: each would take a group of ranks per seeded bug."""
        unscored = tuple(CaseScore(case=case, unjudged=UNSCORED) for case in cases)
        return CaseScores(asked=mutants, mutants=(), own=(), cases=unscored)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        """Raises BadInput: constants of such a kernel are not tuned."""
        raise BadInput(
            f"{self.task.name} is for several GPUs, but constants can be tuned"
            " only for one: use --tune 0"
        )

    def beside_module(
        self, source: str, weighted: Weighted, compilations: int, mode: str
    ) -> BesideModule | Outcome:
        """Raises BadInput: a module of PyTorch runs on one GPU."""
        raise BadInput(f"{self.task.name} is for several GPUs, but a PyTorch module runs on one")

    def _begun_ranks(self, source: str) -> RanksEvaluating:
        seed = self.entropy.evaluation(candidate_id(source))
        self._counts.clear()
        return RanksEvaluating(self.ranks, source, seed)

    def _times(
        self, work: RanksEvaluating, built: Build, weighted: Weighted
    ) -> tuple[list[AnyTime], list[Profile]] | Outcome:
        if self.device.kind == "cuda":
            return work.measured(built, weighted, confirming=False)
        return work.counted_alone(built, weighted) or work.estimated(weighted)


def judge_of(task: Task, device: Device, **options: Any) -> TuningJudge:
    """The judge for a task: of several GPUs where it has ranks. Options as of Judge."""
    return (
        RanksJudge(task, device, **options) if task.ranks else TuningJudge(task, device, **options)
    )
