"""The judge: one candidate in, one evaluation out. Independent of the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.hidden_cases import Weighted, heaviest, reseeded
from astra_chat.tools.check.launch_limits import LargestCalls
from astra_chat.tools.entropy import NO_SEED, Entropy, Seed
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.extension.build import ExtensionBuild
from astra_chat.tools.extension.evaluating import NO_PROFILE, EvaluatedExtension
from astra_chat.tools.extension.questions import TRUST as EXTENSION_TRUST
from astra_chat.tools.judge_steps import Bench, Builder, Evaluating
from astra_chat.tools.language import is_extension, language_of
from astra_chat.tools.mutation.mutant_runs import SeededSources
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.prefetch import Prefetch
from astra_chat.tools.progress import Progress, StepCount
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.trust import acting_files, require_trust
from astra_chat.tools.timing.module_times import (
    NO_GPU,
    PLAN_TRUST,
    BesideModule,
    ModuleTime,
    not_run,
)
from astra_chat.tools.types import (
    AnyTime,
    BuildFailed,
    Case,
    Device,
    Outcome,
    Profile,
    Refused,
    StepName,
    Timed,
    TimedOut,
    Unsupported,
    candidate_id,
)
from astra_chat.tools.virtual_gpu.adapter import Engine
from astra_vgpu.ground.errors import AstraError, BadInput

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
        self.entropy = entropy or Entropy()
        self.task, self.device, self.tier, self.on_progress = task, device, tier, on_progress
        self.stop = Stop()
        self._counts: dict[StepName, StepCount] = {}
        builder = Builder(
            task, tier, device, self.stop, lambda done: self._tell("build", done, 1, "nvcc")
        )
        self.baseline = builder.baseline
        require_trust(trust, self.baseline, *acting_files(task))
        self.weighted: Weighted = getattr(
            task, cases or ("bench" if device.kind == "cuda" else "demo")
        )
        runner = Runner(
            task,
            device,
            self.stop,
            engine,
            seed=self.entropy.cases,
            on_wait=lambda step, words: self._tell(step, 0, 1, words),
        )
        oracle = Oracle(task)
        checker = Checker(runner, oracle, self.entropy)
        self._seeded = SeededSources(task, oracle, self.stop, self.entropy, self._tell)
        self._bench = Bench(
            task=task,
            device=device,
            tier=tier,
            trust=trust,
            stop=self.stop,
            builder=builder,
            runner=runner,
            oracle=oracle,
            checker=checker,
            largest=LargestCalls(),
            prefetch=Prefetch(
                task, device, self.weighted, builder.baseline_build, runner, oracle, checker
            ),
            tell=self._tell,
            remark=self._remark,
        )

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the inputs and expected outputs that this judge made."""
        self.stop.set()
        self._bench.prefetch.background.wait()
        self._bench.runner.dismiss()
        self._bench.oracle.close()

    def prepare(self) -> None:
        """Begin what the first evaluation needs besides its own candidate."""
        self._bench.prefetch.background.start()

    def time_only(self, cases: Sequence[Case]) -> None:
        """Time these from now on, each of the same weight, instead of the task's."""
        self.weighted = tuple((case, 1.0) for case in cases)
        self._bench.prefetch.weighted = self.weighted

    def cancel(self) -> None:
        """Stop the running step from another thread."""
        self.stop.set()

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        """Guard and build; executes nothing of the candidate.

        `also`: sources that will be asked for next; they are built at the same time.
        """
        work = self._work(source)
        if self._is_extension(source):
            return self._built_extension(work)
        built = work.build(also)
        result = Built(resources=built.resources) if isinstance(built, Build) else built
        return BuildReport(candidate=candidate_id(source), result=result, steps=work.steps.done())

    def _is_extension(self, source: str) -> bool:
        return source != self.baseline and is_extension(source)

    def _built_extension(self, work: Evaluating) -> BuildReport:
        """On the virtual GPU, where it will be unsupported, it is not compiled."""
        extension = EvaluatedExtension(work)
        result: Built | Refused | BuildFailed | TimedOut
        if self.device.kind == "virtual":
            result = extension.guard() or Built(resources=())
        else:
            built = extension.build()
            result = (
                Built(resources=built.resources) if isinstance(built, ExtensionBuild) else built
            )
        steps = work.steps.done()
        return BuildReport(candidate=candidate_id(work.source), result=result, steps=steps)

    def _extension(self, source: str, weighted: Weighted, extra: Sequence[Case]) -> Evaluation:
        work = self._begun(source)
        return _trusted(work.result(EvaluatedExtension(work).outcome(weighted, extra)))

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        """All steps, on the task's check cases and the extra ones; builds come from the cache.

        The best of many measurements has a selection bias: a winner is evaluated once more with
        `fresh_seeds` for the timed cases, after the sanitizers.
        """
        planned = source != self.baseline and not self._is_extension(source)
        if self.device.kind == "cuda" and planned:
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
        if self._is_extension(source):
            return self._extension(source, self.weighted, extra_cases)
        work = self._begun(source)
        weighted = reseeded(self.weighted, work.steps.seed) if fresh_seeds else self.weighted
        return work.result(work.all_steps(weighted, extra_cases, confirming=fresh_seeds))

    def _begun(self, source: str) -> Evaluating:
        return self._work(source, self.entropy.evaluation(candidate_id(source)))

    def _work(self, source: str, seed: Seed = NO_SEED) -> Evaluating:
        self._counts.clear()
        return Evaluating(self._bench, source, seed)

    def check(self, source: str, extra_cases: Sequence[Case] = ()) -> Evaluation:
        """Guard, build and check only."""
        if self._is_extension(source):
            return self._extension(source, (), extra_cases)
        work = self._begun(source)
        built = work.build(timed=())
        if not isinstance(built, Build):
            return work.result(built)
        return work.result(work.plan(built, ()) or work.check(built, extra_cases))

    def require_judged(self, cases: Sequence[Case]) -> None:
        """Raises BadInput where the baseline fails on one of these cases that somebody gave."""
        self._bench.checker.require_judged(cases)

    def time(self, source: str, weighted: Weighted) -> list[AnyTime] | Outcome:
        """Guard, build and time only, on these cases, whose results are compared; no verdict. An
        extension is checked as well."""
        if self._is_extension(source):
            found = self._extension(source, weighted, ()).outcome
            return list(found.cases) if isinstance(found, Timed) else found
        work = self._work(source, self.entropy.timing(candidate_id(source)))
        built = work.build()
        if not isinstance(built, Build):
            return built
        self._bench.prefetch.timers()
        timed = work.time(built, weighted)
        return [one.time for one in timed] if isinstance(timed, list) else timed

    def beside_module(
        self, source: str, weighted: Weighted, compilations: int, mode: str
    ) -> BesideModule | Outcome:
        """Guard, build and time beside the PyTorch module that is the task's reference: eager, and
        torch.compile in a mode of its own, compiled so often from empty caches; a CUDA graph of
        either. Results of timed launches are compared; no verdict.

        Raises BadInput where the task has no such module.
        """
        if self.task.reference is None:
            raise BadInput(
                f"{self.task.name} has no PyTorch module: its reference is reference.py;"
                " astra-chat new NAME --from problem.py creates a task from a module"
            )
        found: list[ModuleTime] | Outcome = not_run([case for case, _ in weighted], NO_GPU)
        if self.device.kind == "cuda":
            work = self._work(source, self.entropy.timing(candidate_id(source)))
            if self._is_extension(source):
                found = self._extension_rows(work, weighted, compilations, mode)
            else:
                built = work.build()
                if not isinstance(built, Build):
                    return built
                found = work.time_beside_module(built, weighted, compilations, mode)
        if not isinstance(found, list):
            return found
        return BesideModule(
            task=self.task.name,
            candidate=candidate_id(source),
            device=self.device.name,
            trust=EXTENSION_TRUST if self._is_extension(source) else PLAN_TRUST,
            tensor_float32=self.task.tensor_float32,
            mode=mode,
            compilations=compilations,
            times=tuple(found),
        )

    @staticmethod
    def _extension_rows(
        work: Evaluating, weighted: Weighted, compilations: int, mode: str
    ) -> list[ModuleTime] | Outcome:
        """An extension beside the module, once its check has passed."""
        extension = EvaluatedExtension(work)
        found = extension.outcome(weighted, compilations=compilations, mode=mode)
        work.result(found)
        return extension.rows if isinstance(found, Timed) else found

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        """Which of so many seeded bugs of the baseline the task's own cases kill, and these. `also`
        is a correct candidate's source, whose bugs count beside them; one in another language than
        CUDA has none."""
        self._counts.clear()
        also = also if language_of(also) == "cuda" else ""
        return self._seeded.score(cases, mutants, self.baseline, also)

    def profile(self, source: str, case: Case | None = None) -> Profile | Evaluation:
        """Guard, build and profile only, on `case` or on that of greatest weight; an Evaluation
        where the kernel did not get that far."""
        work = self._begun(source)
        if self._is_extension(source):
            none = Unsupported(what=NO_PROFILE, kernel="", opcode="", line=0)
            return _trusted(work.result(none))
        built = work.build()
        if not isinstance(built, Build):
            return work.result(built)
        chosen = ((case, 1.0),) if case else (self.weighted[heaviest(self.weighted)],)
        timed = work.time(built, chosen) if self.device.kind == "virtual" else []
        if not isinstance(timed, list):
            return work.result(timed)
        profiles = work.profile(built, chosen, timed, thorough=True)
        return profiles[0] if isinstance(profiles, list) else work.result(profiles)

    def _remark(self, text: str) -> None:
        self.on_progress(Progress(step="check", done=0, total=1, text="", remark=text))

    def _tell(self, step: StepName, done: int, total: int, text: str) -> None:
        done, total = self._counts.setdefault(step, StepCount()).shown(done, total, text)
        self.on_progress(Progress(step=step, done=done, total=total, text=text))


SHARE = 0.5
"""The machine is overloaded where the baseline's check takes more than this share of the limit."""


def unhurried(
    first: Evaluation, check_baseline: Callable[[], Evaluation], again: Callable[[], Evaluation]
) -> Evaluation:
    """`first`; or `again`, with a note that says so, where it timed out on an overloaded machine.

    Raises AstraError where the candidate times out twice and the baseline does, too: nothing can be
    judged there.
    """
    late = first.outcome
    if not isinstance(late, TimedOut):
        return first
    baseline = check_baseline()
    took_s = sum(step.seconds - step.waited_s for step in baseline.steps if step.name == "check")
    out_of_time = isinstance(baseline.outcome, TimedOut)
    if took_s < SHARE * late.limit_s and not out_of_time:
        return first
    second = again()
    if isinstance(second.outcome, TimedOut) and out_of_time:
        raise AstraError(
            f"the step '{late.step}' exceeded its limit of {late.limit_s:.0f} s twice, and the"
            " baseline's own check timed out, too: this machine is overloaded; judge"
            " the kernel again when it is less busy"
        )
    return _noted(
        second,
        f"judged again, because '{late.step}' exceeded {late.limit_s:.0f} s the first time",
    )


def _trusted(found: Evaluation) -> Evaluation:
    """An extension's evaluation, with its level of trust."""
    return found.model_copy(update={"trust": EXTENSION_TRUST})


def _noted(found: Evaluation, words: str) -> Evaluation:
    """With a note at its first step."""
    head, *rest = found.steps
    note = f"{head.note}; {words}" if head.note else words
    return found.model_copy(update={"steps": (head.model_copy(update={"note": note}), *rest)})
