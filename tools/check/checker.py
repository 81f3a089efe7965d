"""The check step: which calls are made, on which cases, and with which baseline errors as the
limit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from zlib import crc32

from astra_chat.tools.build.nvcc import Build, build_all, require_build
from astra_chat.tools.case import SEED_BITS, USUAL_SEED_BITS
from astra_chat.tools.check.calls import CheckProgress, check, first_of_each_dtype, with_repeats
from astra_chat.tools.check.cases_by_heart import cases_by_heart
from astra_chat.tools.check.error_norms import FEW, BaselineErrors
from astra_chat.tools.check.far_calls import FarCalls
from astra_chat.tools.check.hidden_cases import (
    draw,
    draw_confirming,
    draw_covering,
    draw_ends,
    draw_shared,
    seeded,
    tied,
    twin,
    unique,
)
from astra_chat.tools.check.kernels import BeyondOracle, CheckedKernels, Launching
from astra_chat.tools.check.known_numbers import known_numbers
from astra_chat.tools.check.learning import Learning
from astra_chat.tools.check.lost_cases import Failed, below_floor, instead, is_lost
from astra_chat.tools.check.same_rows import SameRows, row_cases
from astra_chat.tools.check.sweep import RunningSweep, Sweep
from astra_chat.tools.check.trivial_outputs import require_telling
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.evaluation import CheckRecord
from astra_chat.tools.known import KnownNumbers
from astra_chat.tools.progress import ORACLE
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.background import Ahead, Background, begins_ahead
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    Correct,
    How,
    TimedOut,
    Wrong,
)
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.freed_memory import keep_freed_memory

Tell = Callable[[int, int, str], None]
"""Called with calls done, of how many, and what is being done."""


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """One check of one candidate."""

    built: Build
    seed: Seed
    rng: random.Random
    """What the hidden cases and their calls are drawn with, in this order."""
    tell: Tell
    confirming: bool


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    """What is drawn for one check only."""

    cases: list[Case]
    """The hidden cases."""
    pairs: list[tuple[Case, Case]]
    """Hidden cases that differ in their numbers only, and are called again and again."""
    numbers: KnownNumbers
    """What the candidate compares with; some cases are drawn for these."""
    unmeasured: frozenset[str]
    """Keys of these."""
    uncovered: tuple[str, ...]
    """Combinations that no case has."""


class Checker:
    """Checks candidates of one task on one device.

    Seeds of the task's own cases are drawn once, and so are most hidden cases: the oracle's and the
    baseline's results serve all candidates. Further hidden cases are drawn for each check.
    """

    def __init__(self, runner: Runner, oracle: Oracle, entropy: Entropy | None = None) -> None:
        self._entropy = entropy or Entropy()
        self._runner = runner.seeded(self._entropy.cases.of("baseline"))
        self._oracle, self._task, self._device = oracle, runner.task, runner.device
        keep_freed_memory()  # results are compared here
        seed = 1 + self._entropy.cases.of("own cases").bits(USUAL_SEED_BITS)
        self._own = sorted(
            (seeded(case, seed) for case in self._task.check), key=self._task.least_bytes
        )
        shared = draw_shared(self._task, self._entropy.cases.of("shared cases").random(), self._own)
        pairs, self._uncovered = draw_covering(
            self._task, self._entropy.cases.of("covering cases").random()
        )
        ties = tied(self._task, self._entropy.cases.of("cases of ties").random())
        self._shared = unique([*shared, *pairs, *ties])
        if self._device.kind == "cuda":
            ends, no_ends = draw_ends(self._task, self._entropy.cases.of("cases at ends").random())
            self._shared, self._uncovered = [*self._shared, *ends], (*self._uncovered, *no_ends)
        # These are many, and to measure the baseline on one takes several runs.
        self._unmeasured = {case.key for case in self._shared if self._few(case)}
        self.baseline_errors = BaselineErrors(self._task)
        self._sweep = Sweep(self._runner, oracle, self._entropy.cases)
        self._far = FarCalls(self._runner)
        self._telling = False
        self._left_out: list[Failed] = []
        self._drawn_shared = list(self._shared)

    def check(
        self,
        built: Build,
        extra: Sequence[Case],
        tell: Tell = lambda *_: None,
        seed: Seed | None = None,
        *,
        timed: Sequence[Case] = (),
        confirming: bool = False,
    ) -> tuple[Correct | Wrong | Failure, CheckRecord]:
        """Check one candidate on the task's cases, the extra ones and hidden ones; to confirm a
        winner, on as many more hidden ones. `timed`: cases that the evaluation runs and compares
        after this.

        The same `seed`, an evaluation's, draws the same again, whatever the extra cases are.
        Raises BadInput where the task's cases cannot tell work from no work.
        """
        seed = seed or self._entropy.evaluation(built.folder.name)
        asked = _Asked(
            built=built,
            seed=seed,
            rng=seed.of("hidden cases").random(),
            tell=tell,
            confirming=confirming,
        )
        far = Background(partial(self._far.learn_shared, confirming))
        far.start()
        with ExitStack() as ended:
            sweep: RunningSweep | None = None
            if self._device.kind == "cuda":
                sweep = self._begun_sweep(built, seed, confirming)
                ended.callback(sweep.end)
            ended.callback(far.wait)
            beyond = self._beyond(asked, far)
            ended.callback(beyond.end)
            return self._checked(asked, unique(extra), timed, sweep, beyond)

    def _checked(
        self,
        asked: _Asked,
        extra: Sequence[Case],
        timed: Sequence[Case],
        sweep: RunningSweep | None,
        beyond: BeyondOracle,
    ) -> tuple[Correct | Wrong | Failure, CheckRecord]:
        """First the cases that all candidates share, while the oracle and the baseline make the
        hidden ones, then those, then what is beyond the oracle."""
        coming, tell = Ahead(lambda _: self._drawn(asked), self._runner.stop), asked.tell
        shared = self._oracle_cases([*extra, *self._own, *self._shared], tell)
        further, left_out = shared[: len(extra)], list[str]()
        failed = self._learned_with_own(further, tell)
        own = self._oracle_cases(self._own, tell)
        calls = self._shared_calls(asked, own, [t for t in further if t not in own])
        self._recorder(asked).record(asked.built, [call.oracle_case.case for call in calls])
        drawn = coming.result()
        # What cases by heart look for is no matter of rounding.
        self._unmeasured |= drawn.unmeasured
        seen = CheckProgress(uncovered=drawn.uncovered)
        hidden = Ahead(partial(self._baseline_on, drawn.cases, tell), self._runner.stop)
        found = list[OracleCase]()
        try:
            self._begin_beyond(beyond, asked, drawn, calls, [*timed], sweep)
            outcome = self._called(asked, calls, seen, whole=False)
            if isinstance(outcome, Correct):
                found, learned = hidden.result()
                failed += learned()
                found += self._instead(found, failed, asked.rng, tell)
                lost = self._lost(failed, [*further, *found])
                left_out += map(str, lost)
                more = self._hidden_calls(asked, drawn, found, len(own))
                outcome = self._called(asked, more, seen)
            if isinstance(outcome, Correct):
                tell(0, 1, "checking the addresses of calls that are too large for the oracle")
                judged = unique([call.oracle_case.case for call in seen.calls if call.hidden])
                outcome, others = self._beyond_the_oracle(asked, seen, sweep, timed, beyond)
                left_out += others
            if isinstance(outcome, Correct):
                lacking = below_floor([*self._drawn_shared, *drawn.cases], judged, lost)
                outcome = lacking or outcome.model_copy(update={"left_out": len(lost)})
            return outcome, seen.record(self._task, left_out, drawn.cases, drawn.numbers)
        finally:
            hidden.end()
            coming.end()
            self._forget([*map(self._oracle.place_of, drawn.cases), *found])

    def _begin_beyond(
        self,
        beyond: BeyondOracle,
        asked: _Asked,
        drawn: _Drawn,
        calls: Sequence[Call],
        timed: Sequence[Case],
        sweep: RunningSweep | None,
    ) -> None:
        """`calls`: those that come first, whose plans are recorded; the hidden ones are taken to be
        all judged."""
        runner, rng = self._recorder(asked), copy(asked.rng)
        called = [call.oracle_case.case for call in calls]

        def begin_sweep() -> list[Case]:
            if sweep is None:
                return []
            sweep.begin()
            return sweep.launched()

        def cases() -> list[Case]:
            places = [self._oracle.place_of(case) for case in drawn.cases]
            more = with_repeats(self._task, places, drawn.pairs, self._device.kind, rng, 0)
            hidden = [call.oracle_case.case for call in more]
            runner.record(asked.built, hidden)
            return [*called, *hidden, *timed, *begin_sweep()]

        beyond.begin(cases)
        if sweep and not begins_ahead():
            sweep.begin()

    def _baseline_on(
        self, cases: Sequence[Case], tell: Tell, stop: Stop
    ) -> tuple[list[OracleCase], Callable[[], list[Failed]]]:
        """Inputs and results of hidden cases, and what learns from the baseline's runs on them.
        Its progress is not shown while calls of the candidate show theirs."""
        tell = (lambda *_: None) if begins_ahead() else tell
        made = self._oracle.oracle_cases(cases, stop, lambda n: tell(n, len(cases), ORACLE))
        return made, self._run_on(made, tell, replace(self._runner, stop=stop))

    def _recorder(self, asked: _Asked) -> Runner:
        """Records the plans of a check's calls."""
        return self._runner.seeded(asked.seed.of("check"))

    def _called(
        self, asked: _Asked, calls: Sequence[Call], seen: CheckProgress, *, whole: bool = True
    ) -> Correct | Wrong | Failure:
        """Makes calls and compares; `whole`: none come after them."""
        total = len(seen.calls) + len(calls)
        return check(
            self._runner.seeded(asked.seed.of("check")),
            asked.built,
            calls,
            self.baseline_errors,
            seen,
            lambda done: asked.tell(done, total, "comparing the candidate with the oracle"),
            whole=whole,
        )

    def _drawn(self, asked: _Asked) -> _Drawn:
        """Draw the hidden cases that no other check has."""
        cases, uncovered = unique(draw(self._task, self._device.kind, asked.rng)), self._uncovered
        if asked.confirming:
            more, uncovered = draw_confirming(self._task, asked.seed)
            cases = unique([*cases, *more])
        pairs = [(first, twin(first, asked.rng)) for first in first_of_each_dtype(cases)]
        numbers = known_numbers(asked.built)
        by_heart = cases_by_heart(self._task, numbers, asked.seed, asked.confirming)
        return _Drawn(
            cases=unique([*cases, *(second for _, second in pairs), *by_heart]),
            pairs=pairs,
            numbers=numbers,
            unmeasured=frozenset(case.key for case in by_heart),
            uncovered=uncovered,
        )

    def _lost(self, failed: Sequence[Failed], wanted: Sequence[OracleCase]) -> list[Failed]:
        """Cases of a check that are not called, since the baseline fails them: shared ones, and
        some that were wanted for this check."""
        unknown = [t.case for t in wanted if not self._knows(t)]
        return [*self._left_out, *(one for one in failed if one.case in unknown)]

    def _shared_calls(
        self, asked: _Asked, own: Sequence[OracleCase], more: Sequence[OracleCase]
    ) -> list[Call]:
        """The first calls of a check: on the task's own cases and `more`, and on those that all
        candidates share."""
        calls = [Call(t, turn=place) for place, t in enumerate(own)]
        calls += [Call(t, turn=_turn(t)) for t in more if self._knows(t)]
        shared = self._oracle_cases(self._shared, asked.tell)
        return calls + [Call(t, hidden=True, turn=_turn(t)) for t in shared]

    def _hidden_calls(
        self, asked: _Asked, drawn: _Drawn, hidden: Sequence[OracleCase], first_turn: int
    ) -> list[Call]:
        """Calls on the hidden cases with their repeats."""
        known = [t for t in hidden if self._knows(t)]
        kind, rng = self._device.kind, asked.rng
        return with_repeats(self._task, known, drawn.pairs, kind, rng, first_turn)

    def _beyond_the_oracle(
        self,
        asked: _Asked,
        seen: CheckProgress,
        sweep: RunningSweep | None,
        timed: Sequence[Case],
        beyond: BeyondOracle,
    ) -> tuple[Correct | Wrong | Failure, list[str]]:
        """What follows where all calls are correct: the sweep's end, calls of kernels that none of
        them launches, and far calls. The first that is not correct ends it. With the outcome come,
        as text, the cases that are left out of these."""
        built, seed, left_out = asked.built, asked.seed, list[str]()
        same = self._same_rows(asked, seen)
        if not isinstance(same, Correct):
            return same, left_out
        if sweep:
            asked.tell(0, 1, "comparing drawn cases with the baseline")
            swept = self._swept(sweep, built, seen, seed, asked.tell)
            left_out += sweep.left_out
            if not isinstance(swept, Correct):
                return swept, left_out
        called = [call.oracle_case.case for call in seen.calls]
        kernels = beyond.kernels([*called, *timed, *(sweep.cases if sweep else ())])
        fault = kernels.fault(seen, partial(self._once, asked.tell))
        if fault:
            return fault, left_out
        correct = seen.correct()
        return beyond.far_fault(kernels.ran) or correct, [*left_out, *self._far.left_out]

    def _beyond(self, asked: _Asked, far: Background) -> BeyondOracle:
        """`far`: far calls of the baseline, on which the candidate's wait."""
        built, seed, confirming = asked.built, asked.seed, asked.confirming

        def kernels(stop: Stop) -> CheckedKernels:
            baseline = require_build(self._baseline_build(), f"the baseline of {self._task.name}")
            runner = replace(self._runner.seeded(seed.of("kernels")), stop=stop)
            return CheckedKernels(runner, built, baseline, confirming)

        def far_fault(stop: Stop, ran: Sequence[Launching]) -> Wrong | Failure | None:
            far.wait()
            return self._far.fault(built, seed.of("far"), ran, confirming=confirming, stop=stop)

        return BeyondOracle(kernels, far_fault, self._runner.stop)

    def _same_rows(self, asked: _Asked, seen: CheckProgress) -> Correct | Wrong | Failure:
        """Calls on rows of larger calls, whose bits have to be the same, where the contract says
        so. On a GPU half of them are captured in a graph."""
        if self._task.batch_invariant is None:
            return seen.correct()
        seed, kind = asked.seed.of("rows"), self._device.kind
        rng, sizes = seed.random(), known_numbers(asked.built).sizes
        cases = row_cases(self._task, kind, rng, sizes, confirming=asked.confirming)
        made, rows = self._oracle_cases(cases, asked.tell), SameRows(self._task)
        hows: tuple[How, ...] = ("fresh", "graph") if kind == "cuda" else ("fresh",)
        calls = [Call(t, rng.choice(hows), hidden=True, turn=_turn(t)) for t in made]
        asked.tell(0, len(calls), "comparing rows bit for bit across batches")
        try:
            return check(self._runner.seeded(seed), asked.built, calls, seen=seen, rows=rows)
        finally:
            seen.rows = rows.compared
            self._forget(made)

    def _forget(self, oracle_cases: Sequence[OracleCase]) -> None:
        """Delete what is known of cases that no other check has."""
        for oracle_case in oracle_cases:
            self.baseline_errors.forget(oracle_case.case)
            self._oracle.forget(oracle_case)

    def _begun_sweep(self, built: Build, seed: Seed, confirming: bool) -> RunningSweep:
        """Begin to compare many more cases on the device, to confirm a winner others of its own."""
        sweep = Sweep(self._runner, self._oracle, seed) if confirming else self._sweep
        return RunningSweep(sweep, self._sweeper(seed), built, forget=confirming)

    def _sweeper(self, seed: Seed) -> Runner:
        return self._runner.seeded(seed.of("sweep"))

    def _swept(
        self, sweep: RunningSweep, built: Build, seen: CheckProgress, seed: Seed, tell: Tell
    ) -> Correct | Wrong | Failure:
        """The sweep's end; the oracle judges the cases that differ."""
        result, runner = sweep.result(), self._sweeper(seed)
        if not isinstance(result, tuple):
            return result
        seen.swept, doubtful = result
        return self._judged(runner, built, doubtful, seen, tell)

    def _judged(
        self,
        runner: Runner,
        built: Build,
        oracle_cases: Sequence[OracleCase],
        seen: CheckProgress,
        tell: Tell,
    ) -> Correct | Wrong | Failure:
        """Further cases of a check, those aside that the baseline fails."""
        self._unmeasured |= {t.case.key for t in oracle_cases}
        self.learn(oracle_cases, tell)
        calls = [Call(t, hidden=True, turn=_turn(t)) for t in oracle_cases if self._knows(t)]
        return check(runner, built, calls, self.baseline_errors, seen) if calls else seen.correct()

    def _once(
        self,
        tell: Tell,
        runner: Runner,
        built: Build,
        cases: Sequence[Case],
        seen: CheckProgress,
    ) -> Correct | Wrong | Failure:
        """Further cases of a single check."""
        oracle_cases = self._oracle_cases(cases, tell)
        try:
            return self._judged(runner, built, oracle_cases, seen, tell)
        finally:
            self._forget(oracle_cases)

    def make_ready(self) -> None:
        """Make the cases that all candidates share, and learn the baseline's errors on them, before
        any check."""
        if not self._telling:
            self._learned_with_own([], lambda *_: None)
        if self._device.kind == "cuda":
            self._sweep.ready()

    def _learned_with_own(self, others: Sequence[OracleCase], tell: Tell) -> list[Failed]:
        """Learn the baseline's errors on these cases and, the first time, on those that all
        candidates share; what it fails."""
        if self._telling:
            return self.learn(others, tell)
        own, shared = (self._oracle_cases(some, tell) for some in (self._own, self._shared))
        failed = self.learn([*own, *self._in_reserve(tell), *shared, *others], tell)
        lacking = [t.case for t in shared if not self._knows(t)]
        self._left_out = [one for one in failed if one.case in lacking]
        shared += self._instead(shared, failed, self._entropy.cases.of("instead").random(), tell)
        self._shared = [t.case for t in shared if self._knows(t)]
        self._settle(own, tell)
        return failed

    def _instead(
        self, asked: Sequence[OracleCase], failed: Sequence[Failed], rng: random.Random, tell: Tell
    ) -> list[OracleCase]:
        """Cases in the place of those that the baseline fails: nearer to such that it passes."""
        lost = [one.case for one in failed if is_lost(one)]
        lost = [t.case for t in asked if t.case in lost and not self._knows(t)]
        found: list[OracleCase] = []
        for attempt in (0, 1):
            passed = [t.case for t in asked if self._knows(t)]
            made = self._oracle_cases(instead(self._task, lost, passed, rng, attempt), tell)
            self.learn(made, tell)
            found += [t for t in made if self._knows(t)]
            lost = lost[: len(lost) - len(found)]
            if not lost:
                break
        return found

    def _in_reserve(self, tell: Tell) -> list[OracleCase]:
        """Cases of special values as they are stated: a drawn seed may let some meet on which the
        baseline itself fails, and a process of its own for such a case takes seconds."""
        stated = [case for case in self._task.check if case.values == "special"]
        return self._oracle_cases(stated, tell)

    def require_judged(self, cases: Sequence[Case]) -> None:
        """Raises BadInput, naming the baseline's failure, where no verdict is possible on a case
        that somebody gave."""
        failed = self.learn(self._oracle_cases(cases, lambda *_: None))
        if failed:
            first = failed[0]
            raise BadInput(
                f"case {first.case.named}: the baseline of {self._task.name} fails on this case,"
                f" so no kernel can be judged on it: {first.cause}"
            )

    @property
    def own(self) -> list[Case]:
        """The task's own cases, with the seeds that were drawn; small ones first."""
        return self._own

    def _settle(self, oracle_cases: list[OracleCase], tell: Tell) -> None:
        """The task's own cases. Where the baseline fails on a drawn seed, the stated one is kept:
        special values may meet in ways that no contract speaks of."""
        stated = sorted(self._task.check, key=self._task.least_bytes)
        self._own = [
            oracle_case.case if self._knows(oracle_case) else case
            for case, oracle_case in zip(stated, oracle_cases, strict=True)
        ]
        oracle_cases = self._oracle_cases(self._own, tell)
        failed = self.learn(oracle_cases, tell)
        known = [t for t in oracle_cases if self._knows(t)]
        require_telling(self._task, known, self.baseline_errors, failed)
        self._telling = True

    def _few(self, case: Case) -> bool:
        return self._task.least_results(case) < FEW

    def _knows(self, oracle_case: OracleCase) -> bool:
        return self.baseline_errors.knows(oracle_case.case)

    def learn(
        self, oracle_cases: Sequence[OracleCase], tell: Tell = lambda *_: None
    ) -> list[Failed]:
        """Run the baseline where its own errors are unknown; the cases that it fails."""
        return self._run_on(oracle_cases, tell, self._runner)()

    def _run_on(
        self, oracle_cases: Sequence[OracleCase], tell: Tell, runner: Runner
    ) -> Callable[[], list[Failed]]:
        """Runs the baseline where its own errors are unknown. Returns what learns from that, and
        says which cases it fails."""
        missing = [t for t in oracle_cases if not self._knows(t)]
        built = self._baseline_build() if missing else None
        if not isinstance(built, Build):
            return lambda: [Failed(t.case, built) for t in missing]
        like = self._on_further_seeds([t.case for t in missing])
        further = self._oracle.oracle_cases([again for again, _ in like.values()], runner.stop)
        learning = Learning(runner, built, self.baseline_errors, like, self._unmeasured, tell)
        try:
            learning.run([*missing, *further])
        finally:
            for oracle_case in further:
                self._oracle.forget(oracle_case)
        return learning.learned

    def _baseline_build(self) -> Build | BuildFailed | TimedOut:
        return build_all(self._task, [self._task.baseline], self._device, self._runner.stop)[0]

    def _on_further_seeds(self, cases: Sequence[Case]) -> dict[str, tuple[Case, Case]]:
        """Maps the key of each further case to that case and to the one that it repeats on another
        seed: as many as bring FEW results together. No drawn case has such a seed. Special values
        are not repeated: few of their results are numbers on any seed."""
        warm_inputs = {}
        for case in cases:
            plain = case.values != "special" and not (case.families or case.planted)
            measured = plain and case.key not in self._unmeasured
            times = -(-FEW // max(1, self._task.least_results(case))) if measured else 1
            for number in range(1, times):
                again = case.model_copy(update={"seed": case.seed + (number << SEED_BITS)})
                warm_inputs[again.key] = again, case
        return warm_inputs

    def _oracle_cases(self, cases: Sequence[Case], tell: Tell) -> list[OracleCase]:
        return self._oracle.oracle_cases(
            cases, self._runner.stop, lambda made: tell(made, len(cases), ORACLE)
        )


def _turn(oracle_case: OracleCase) -> int:
    """What is drawn for a call of this case is the same in every check."""
    return crc32(oracle_case.case.key.encode())
