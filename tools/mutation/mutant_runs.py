"""Runs mutants on cases, in the sandbox like any candidate, and records which case kills which.

A mutant is killed where it is wrong, unsafe or imprecise, crashes, or does not end: by the gates
that a candidate has to pass. Scores are kept on disk, because mutants and cases are the same in
every run, with the seeds that the cases state.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from astra_chat.tools.build.nvcc import build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.hidden_cases import BUDGET_BYTES, draw, draw_shared
from astra_chat.tools.check.lost_cases import Failed
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutants import (
    DEFAULT_COUNT,
    BuiltMutant,
    Mutant,
    build_mutants,
    mutants,
    probe,
)
from astra_chat.tools.mutation.scores import CaseScore, CaseScores, SuiteScore, together
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import (
    BuildFailed,
    Case,
    StepName,
    TimedOut,
    Unsupported,
    Value,
    Wrong,
    candidate_id,
    sha256_of,
)
from astra_chat.tools.wording import counted
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry

FIRST_WAVE = 8
"""Number of smallest cases, run first, on which it matters only whether a mutant is killed."""
MAX_BYTES = 2**24
"""Largest least_bytes of a case that is scored."""
VERSION = "6"
"""Version of operators and scoring: what another one left on disk does not count."""
ITSELF, FAILS = "the source itself", "the source itself fails on it"
MAX_DRAWN = 64
"""Drawn cases on which what a mutant writes is compared with what its source writes."""

Tell = Callable[[int, int, str], None]
Verdict = Callable[[CaseRun | Failure], object]
"""What is wrong with a call; None: nothing."""
V = TypeVar("V", bound=Value)


class _Own(Value):
    """What the task's own cases do."""

    mutants: tuple[str, ...]
    killed: tuple[str, ...]
    harmless: tuple[str, ...] = ()
    """Names of surviving mutants that write the same bytes as the source on all drawn cases."""
    none_because: str = ""
    """Why there are no mutants."""


class Scorer:
    """Scores cases of one task by seeded bugs of one source.

    It runs on the virtual GPU whatever device the candidates run on: that survives what a mutant
    does, and sees races and accesses out of bounds that a real one may let pass.
    """

    def __init__(
        self,
        task: Task,
        oracle: Oracle,
        source: str,
        stop: Stop,
        count: int = DEFAULT_COUNT,
        tell: Tell = lambda *_: None,
        entropy: Entropy | None = None,
    ) -> None:
        """`count`: mutants at most."""
        self._device, entropy = pick_device("virtual"), entropy or Entropy()
        self._runner = Runner(task, self._device, stop, seed=entropy.cases.of("mutants"))
        self._task, self._oracle, self._source = task, oracle, source
        self.count, self._tell = count, tell
        self._checker = Checker(self._runner, oracle, entropy)
        self._drawn: list[Mutant] = []
        self._builds: list[BuiltMutant] | None = None
        self._unsupported: set[str] = set()

    def score(self, cases: Sequence[Case]) -> CaseScores:
        """Scores the tester's cases beside the task's own. Raises BadInput where the oracle
        fails."""
        return self._kept("cases", cases, CaseScores, lambda: self._score(cases))

    def _kept_own(self) -> _Own:
        return self._kept("own", (), _Own, self._own)

    def suite(self) -> SuiteScore:
        """Scores the task's own cases, and drawn ones on the mutants that those let live, but for
        those that were harmless on as many."""
        return self._kept("suite", (), SuiteScore, self._suite)

    def _score(self, cases: Sequence[Case]) -> CaseScores:
        """A mutant that changes no result is left out, unless one of the cases kills it."""
        own = self._kept_own()
        good, why = self._learned(cases)
        itself = self._itself()
        failed = self._killing([itself], good)[ITSELF] if itself and good else []
        good = [one for one in good if one.case not in failed]
        known = [one.case for one in good]
        kills = self._killing(self._built(own.mutants), good)
        harmless = tuple(name for name in own.harmless if not kills[name])
        names = tuple(name for name in own.mutants if name not in harmless)
        scores = tuple(
            CaseScore(
                case=case,
                kills=tuple(name for name in names if case in kills[name]),
                unjudged="" if case in known else FAILS if case in failed else _why(case, why),
                refused=any(one.case == case and one.is_baselines for one in why),
            )
            for case in cases
        )
        return CaseScores(
            asked=self.count, mutants=names, own=own.killed, cases=scores, harmless=harmless
        )

    def _suite(self) -> SuiteScore:
        own = self._kept_own()
        lived = self._built([name for name in own.mutants if name not in own.killed])
        changing = [built for built in lived if built.mutant.name not in own.harmless]
        drawn = [
            case
            for case in draw(self._task, "virtual", random.Random(0))
            if self._task.least_bytes(case) <= BUDGET_BYTES["virtual"]
        ]
        cases = self._learned(drawn)[0] if lived else []
        left = self._surviving(changing, cases)
        killed = [built.mutant.name for built in changing if built not in left]
        survivors = [built.mutant for built in lived if built.mutant.name not in killed]
        unreached = self._unreached(survivors, cases)
        return SuiteScore(
            mutants=tuple(name for name in own.mutants if name not in unreached),
            own=own.killed,
            drawn=tuple(killed),
            unreached=tuple(unreached),
            none_because=own.none_because,
        )

    def _unreached(self, survivors: Sequence[Mutant], drawn: Sequence[OracleCase]) -> list[str]:
        """Names of the survivors in code that neither the task's cases nor drawn ones reach. A
        probe that does not build tells nothing."""
        probes: dict[str, list[str]] = {}
        for mutant in survivors:
            if source := probe(self._source, mutant.source):
                probes.setdefault(source, []).append(mutant.name)
        made = [Mutant("probe", place, "", "", source) for place, source in enumerate(probes)]
        built = build_mutants(self._task, made, self._device, self._runner.stop)
        left = self._surviving(built, [*self._learned(self._task.check)[0], *drawn])
        return [name for one in left for name in probes[one.mutant.source]]

    def _surviving(
        self,
        built: Sequence[BuiltMutant],
        cases: Sequence[OracleCase],
        verdict: Verdict | None = None,
    ) -> list[BuiltMutant]:
        """Mutants that none of the cases kills. They run in waves of cases: most mutants fail the
        smallest cases and need no others."""
        left = list(built)
        for wave in _waves(cases):
            kills = self._killing(left, wave, verdict, every=False) if left and wave else {}
            left = [one for one in left if not kills.get(one.mutant.name)]
        return left

    def _own(self) -> _Own:
        good, _ = self._learned(self._task.check)
        built = self._built()
        lived = self._surviving(built, good)
        killed = {one.mutant.name for one in built if one not in lived}
        names = [one.mutant.name for one in built if one.mutant.name not in self._unsupported]
        return _Own(
            mutants=tuple(names),
            killed=tuple(name for name in names if name in killed),
            harmless=tuple(self._harmless(lived)),
            none_because="" if names else self._why_none(),
        )

    def _why_none(self) -> str:
        """Why no mutant was run, in one line."""
        if self._unsupported:
            return "the virtual GPU supports none of them"
        if not self._drawn:
            return "it has no place for a seeded bug"
        itself = build(self._task, self._source, self._device, self._runner.stop)
        if isinstance(itself, BuildFailed):
            return f"it does not build: {itself.log.splitlines()[0]}"
        drawn = counted(len(self._drawn), "one that was drawn", "that were drawn")
        return f"none of the bugs compiles ({drawn})"

    def _harmless(self, lived: Sequence[BuiltMutant]) -> list[str]:
        """Names of the mutants that write what the source writes, byte by byte, on each of many
        drawn cases."""
        itself, rng = self._itself(), random.Random(0)
        if itself is None or not lived:
            return []
        drawn = [*draw(self._task, "virtual", rng), *draw_shared(self._task, rng)]
        small = [c for c in drawn if self._task.least_bytes(c) <= BUDGET_BYTES["virtual"]]
        cases, _ = self._learned(small[:MAX_DRAWN])
        expected: dict[str, str] = {}

        def learn(run: CaseRun | Failure) -> Failure | None:
            if not isinstance(run, CaseRun):
                return run
            expected[run.oracle_case.case.model_dump_json()] = self._written(run)
            return None

        def differs(run: CaseRun | Failure) -> bool | None:
            if not isinstance(run, CaseRun):
                return True
            same = self._written(run) == expected[run.oracle_case.case.model_dump_json()]
            return None if same else True

        if not cases or not self._surviving([itself], cases, learn):
            return []
        return [one.mutant.name for one in self._surviving(lived, cases, differs)]

    def _written(self, run: CaseRun) -> str:
        """A hash of what a call wrote."""
        digest = hashlib.sha256()
        for arg in self._task.args:
            if arg.written:
                digest.update(run.after(arg)[0].tobytes())
        return digest.hexdigest()

    def _itself(self) -> BuiltMutant | None:
        """The source, built as its mutants are; None where it cannot be."""
        return next(iter(self._built([ITSELF])), None)

    def _built(self, names: Sequence[str] | None = None) -> list[BuiltMutant]:
        """The mutants of these names, or all."""
        if self._builds is None:
            self._tell(0, 1, "seeded bugs are built")
            scalars = [scalar.name for scalar in self._task.scalars]
            self._drawn = mutants(self._source, self.count, scalars)
            itself = Mutant(ITSELF, 0, "", "", self._source)
            every = [itself, *self._drawn]
            self._builds = build_mutants(self._task, every, self._device, self._runner.stop)
        if names is None:
            return [one for one in self._builds if one.mutant.name != ITSELF]
        return [one for one in self._builds if one.mutant.name in names]

    def _learned(self, cases: Sequence[Case]) -> tuple[list[OracleCase], list[Failed]]:
        """The cases that the baseline passes, small ones first, and those that it fails."""
        fitting = [case for case in cases if self._task.least_bytes(case) <= MAX_BYTES]
        ordered = sorted(fitting, key=self._task.least_bytes)
        oracle_cases = self._oracle.oracle_cases(ordered, self._runner.stop)
        failed = self._checker.learn(oracle_cases)
        known = self._checker.baseline_errors.knows
        return [t for t in oracle_cases if known(t.case)], failed

    def _killing(
        self,
        built: Sequence[BuiltMutant],
        oracle_cases: Sequence[OracleCase],
        verdict: Verdict | None = None,
        *,
        every: bool = True,
    ) -> dict[str, list[Case]]:
        """Cases that kill each mutant, by its name and by this verdict or a candidate's; half of
        the mutants run in each of two processes. Unless `every` case matters, a mutant that did not
        end is not called again."""
        found: dict[str, list[Case]] = {one.mutant.name: [] for one in built}
        calls = [(one, oracle_case) for one in built for oracle_case in oracle_cases]
        half = len(built) // 2 * len(oracle_cases)
        with ThreadPoolExecutor(2, "astra-mutants") as pool:
            parts = [
                pool.submit(self._kills, part, verdict or self._verdict, every)
                for part in (calls[:half], calls[half:])
            ]
            for part in parts:
                for name, case in part.result():
                    found[name].append(case)
        self._tell(1, 1, f"{counted(len(calls), 'call')} of seeded bugs")
        return found

    def _kills(
        self, calls: Sequence[tuple[BuiltMutant, OracleCase]], verdict: Verdict, every: bool
    ) -> list[tuple[str, Case]]:
        """The mutants and cases of calls that kill; a call that ends its process is followed by
        the next call in another."""
        left, kills = list(calls), []
        while left:
            library = left[0][0].build
            same = [call for call in left if call[0].build.folder == library.folder]
            asked = [Call(oracle_case, entry=one.entry) for one, oracle_case in same]
            done, endless = 0, ""
            for run in self._runner.run_calls(library, asked, "check"):
                mutant, oracle_case = same[done]
                found = verdict(run)
                if isinstance(found, Unsupported):
                    self._unsupported.add(mutant.mutant.name)
                elif found is not None:
                    kills.append((mutant.mutant.name, oracle_case.case))
                endless = mutant.entry if isinstance(run, TimedOut) and not every else ""
                done += 1
            gone = same[: max(1, done)]
            gone += [call for call in same if call[0].entry == endless]
            left = [call for call in left if call not in gone]
        return kills

    def _verdict(self, run: CaseRun | Failure) -> Wrong | Failure | None:
        if not isinstance(run, CaseRun):
            return run
        outcome = compare(self._task, run)
        verdict = (
            outcome if isinstance(outcome, Wrong) else self._checker.baseline_errors.judge(run)
        )
        return verdict if isinstance(verdict, Wrong) else None

    def _kept(self, what: str, cases: Sequence[Case], kind: type[V], work: Callable[[], V]) -> V:
        """The result on disk, or that of `work`, which is put there."""
        key = [VERSION, what, self._task.id, self._source, self._device.model_dump_json()]
        key += [str(self.count), *(case.model_dump_json() for case in cases)]
        final = cache_folder("mutation") / sha256_of("\0".join(key))[:32]
        path = final / "score.json"
        if in_cache(final):
            return kind.model_validate_json(path.read_text())
        result = work()
        with new_entry(final) as scratch:
            (scratch / path.name).write_text(result.model_dump_json())
        return result


def _waves(cases: Sequence[OracleCase]) -> Iterator[Sequence[OracleCase]]:
    """One case first: it reaches most code, and each stop ends a process."""
    yield from (cases[:1], cases[1:FIRST_WAVE], cases[FIRST_WAVE:])


def _why(case: Case, failed: Sequence[Failed]) -> str:
    """Why a case has no score."""
    found = next((one for one in failed if one.case == case), None)
    return str(found) if found else "too large to be scored on the virtual GPU"


# Cases scored by seeded bugs of the baseline and of a candidate beside it: new branches have new
# bugs.


class SeededSources:
    """The sources of one task that bugs are put into, each with its mutants."""

    def __init__(
        self,
        task: Task,
        oracle: Oracle,
        stop: Stop,
        entropy: Entropy,
        tell: Callable[[StepName, int, int, str], None],
    ) -> None:
        self._task, self._oracle, self._stop = task, oracle, stop
        self._tell, self._entropy = partial(tell, "check"), entropy
        self._scorers: dict[tuple[str, int], Scorer] = {}

    def score(
        self, cases: Sequence[Case], mutants: int, baseline: str, also: str = ""
    ) -> CaseScores:
        """Scores the cases by so many bugs of the baseline, and by as many of another source
        `also`."""
        own = self._scorer(baseline, mutants).score(cases)
        if also in ("", baseline):
            return own
        return together(own, self._scorer(also, mutants).score(cases), candidate_id(also))

    def _scorer(self, source: str, mutants: int) -> Scorer:
        known = self._scorers.get((source, mutants))
        if known is None:
            known = self._scorers[source, mutants] = Scorer(
                self._task, self._oracle, source, self._stop, mutants, self._tell, self._entropy
            )
        return known
