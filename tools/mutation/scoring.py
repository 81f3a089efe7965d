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
from typing import TypeVar

from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.hidden_cases import BUDGET_BYTES, draw, draw_shared
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutants import (
    DEFAULT_COUNT,
    Built,
    Mutant,
    build_mutants,
    mutants,
)
from astra_chat.tools.mutation.reach import probe
from astra_chat.tools.mutation.scores import CaseScore, CaseScores, SuiteScore
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.cache import cache_folder, in_cache, new_entry
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Unsupported, Value, Wrong, sha256_of

FIRST_WAVE = 8
"""Of the task's own cases."""
MAX_BYTES = 2**24
"""Least bytes of a case that is scored."""
VERSION = "4"
"""Of operators and scoring: what another one left on disk does not count."""
ITSELF, FAILS = "the source itself", "the source itself fails it"
MAX_DRAWN = 64
"""Drawn cases on which what a mutant writes is compared with what its source writes."""

Tell = Callable[[int, int, str], None]
V = TypeVar("V", bound=Value)


class _Own(Value):
    """What the task's own cases do."""

    mutants: tuple[str, ...]
    killed: tuple[str, ...]
    harmless: tuple[str, ...] = ()
    """Of those that live, what writes the same bytes as the source on all drawn cases."""


class Scorer:
    """Scores cases of one task by seeded bugs of one source.

    On the virtual GPU whatever device the candidates run on: it survives what a mutant does, and
    sees races and accesses out of bounds that a real one may let pass.
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
        self._builds: list[Built] | None = None
        self._unsupported: set[str] = set()

    def score(self, cases: Sequence[Case]) -> CaseScores:
        """The tester's cases beside the task's own. Raises BadInput where the oracle fails."""
        return self._kept("cases", cases, CaseScores, lambda: self._score(cases))

    def suite(self) -> SuiteScore:
        """The task's own cases, and drawn ones on the mutants that those let live."""
        return self._kept("suite", (), SuiteScore, self._suite)

    def _score(self, cases: Sequence[Case]) -> CaseScores:
        """A mutant that changes no result is left out, unless one of the cases kills it."""
        own = self._kept("own", (), _Own, self._own)
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
                unjudged="" if case in known else FAILS if case in failed else why,
            )
            for case in cases
        )
        return CaseScores(
            asked=self.count, mutants=names, own=own.killed, cases=scores, harmless=harmless
        )

    def _suite(self) -> SuiteScore:
        own = self._kept("own", (), _Own, self._own)
        lived = self._built([name for name in own.mutants if name not in own.killed])
        drawn = [
            case
            for case in draw(self._task, "virtual", random.Random(0))
            if self._task.least_bytes(case) <= BUDGET_BYTES["virtual"]
        ]
        cases = self._learned(drawn)[0] if lived else []
        kills = self._killing(lived, cases) if lived else {}
        left = [built for built in lived if not kills[built.mutant.name]]
        unreached = self._unreached([built.mutant for built in left], cases)
        return SuiteScore(
            mutants=tuple(name for name in own.mutants if name not in unreached), own=own.killed,
            drawn=tuple(built.mutant.name for built in lived if kills[built.mutant.name]),
            unreached=tuple(unreached),
        )  # fmt: skip

    def _unreached(self, survivors: Sequence[Mutant], drawn: Sequence[OracleCase]) -> list[str]:
        """Those in code that neither the task's cases nor drawn ones reach. A probe that does not
        build tells nothing."""
        probes: dict[str, list[str]] = {}
        for mutant in survivors:
            if source := probe(self._source, mutant.source):
                probes.setdefault(source, []).append(mutant.name)
        made = [Mutant("probe", place, "", "", source) for place, source in enumerate(probes)]
        built = build_mutants(self._task, made, self._device, self._runner.stop)
        for wave in _waves([*self._learned(self._task.check)[0], *drawn]):
            kills = self._killing(built, wave) if built else {}
            built = [one for one in built if not kills[one.mutant.name]]
        return [name for one in built for name in probes[one.mutant.source]]

    def _own(self) -> _Own:
        """In waves: most mutants fail some of the smallest cases and need no others."""
        good, _ = self._learned(self._task.check)
        built = self._built()
        killed: set[str] = set()
        for wave in (good[:FIRST_WAVE], good[FIRST_WAVE:]):
            left = [one for one in built if one.mutant.name not in killed]
            kills = self._killing(left, wave)
            killed |= {name for name, cases in kills.items() if cases}
        lived = [one for one in built if one.mutant.name not in killed]
        names = [one.mutant.name for one in built if one.mutant.name not in self._unsupported]
        return _Own(
            mutants=tuple(names), killed=tuple(name for name in names if name in killed),
            harmless=tuple(self._harmless(lived)),
        )  # fmt: skip

    def _harmless(self, lived: Sequence[Built]) -> list[str]:
        """Those that write what the source writes, byte by byte, on each of many drawn cases."""
        itself, rng = self._itself(), random.Random(0)
        if itself is None or not lived:
            return []
        drawn = [*draw(self._task, "virtual", rng), *draw_shared(self._task, rng)]
        small = [c for c in drawn if self._task.least_bytes(c) <= BUDGET_BYTES["virtual"]]
        cases, _ = self._learned(small[:MAX_DRAWN])
        expected = self._written(itself, cases)
        if None in expected or not expected:
            return []
        return [one.mutant.name for one in lived if self._written(one, cases) == expected]

    def _written(self, built: Built, oracle_cases: Sequence[OracleCase]) -> list[str | None]:
        """A hash of what each call wrote; None where one failed, and those after it."""
        written = [arg for arg in self._task.args if arg.written]
        hashes: list[str | None] = []
        entries = [built.entry] * len(oracle_cases)
        for run in self._runner.run(built.build, oracle_cases, "check", entries=entries):
            if not isinstance(run, CaseRun):
                return [*hashes, None]
            digest = hashlib.sha256()
            for arg in written:
                digest.update(run.after(arg)[0].tobytes())
            hashes.append(digest.hexdigest())
        return hashes

    def _itself(self) -> Built | None:
        """The source, built as its mutants are; None where it cannot be."""
        return next(iter(self._built([ITSELF])), None)

    def _built(self, names: Sequence[str] | None = None) -> list[Built]:
        """The mutants of these names, or all."""
        if self._builds is None:
            self._tell(0, 1, "seeded bugs are built")
            scalars = [scalar.name for scalar in self._task.scalars]
            drawn = mutants(self._source, self.count, scalars)
            itself = Mutant(ITSELF, 0, "", "", self._source)
            every = [itself, *drawn]
            self._builds = build_mutants(self._task, every, self._device, self._runner.stop)
        if names is None:
            return [one for one in self._builds if one.mutant.name != ITSELF]
        return [one for one in self._builds if one.mutant.name in names]

    def _learned(self, cases: Sequence[Case]) -> tuple[list[OracleCase], str]:
        """The cases that the baseline passes, small ones first, and what is wrong with others."""
        fitting = [case for case in cases if self._task.least_bytes(case) <= MAX_BYTES]
        ordered = sorted(fitting, key=self._task.least_bytes)
        oracle_cases = self._oracle.oracle_cases(ordered, self._runner.stop)
        failed = [str(one) for one in self._checker.learn(oracle_cases)]
        if len(fitting) < len(cases):
            failed.append("too large to be scored on the virtual GPU")
        known = self._checker.baseline_errors.knows
        return [t for t in oracle_cases if known(t.case)], "; ".join(failed)

    def _killing(
        self, built: Sequence[Built], oracle_cases: Sequence[OracleCase]
    ) -> dict[str, list[Case]]:
        """By mutant, the cases that kill it; half of the mutants in each of two processes."""
        found: dict[str, list[Case]] = {one.mutant.name: [] for one in built}
        calls = [(one, oracle_case) for one in built for oracle_case in oracle_cases]
        half = len(built) // 2 * len(oracle_cases)
        with ThreadPoolExecutor(2, "astra-mutants") as pool:
            for kills in pool.map(self._kills, (calls[:half], calls[half:])):
                for name, case in kills:
                    found[name].append(case)
        self._tell(1, 1, f"{len(calls)} calls of seeded bugs")
        return found

    def _kills(self, calls: Sequence[tuple[Built, OracleCase]]) -> list[tuple[str, Case]]:
        """The mutants and cases of calls that kill; a call that ends its process is followed by
        the next call in another."""
        left, kills = list(calls), []
        while left:
            library = left[0][0].build
            same = [call for call in left if call[0].build.folder == library.folder]
            oracle_cases, entries = (
                [oracle_case for _, oracle_case in same],
                [one.entry for one, _ in same],
            )
            done = 0
            for run in self._runner.run(library, oracle_cases, "check", entries=entries):
                mutant, oracle_case = same[done]
                verdict = self._verdict(run)
                if isinstance(verdict, Unsupported):
                    self._unsupported.add(mutant.mutant.name)
                elif verdict is not None:
                    kills.append((mutant.mutant.name, oracle_case.case))
                done += 1
            gone = same[: max(1, done)]
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
