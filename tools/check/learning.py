"""The baseline run on cases, to learn its own errors there; what it fails on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, field

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.error_norms import BaselineErrors, MeasuredRun
from astra_chat.tools.check.lost_cases import Failed, hopeful, unlaunched
from astra_chat.tools.run.case_run import CaseRun, looked_at
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.types import (
    Case,
    Crashed,
    Refused,
    TimedOut,
    Unsafe,
    Unsupported,
    Wrong,
)
from astra_vgpu.ground.errors import BadInput

TOO_MANY_FAILURES, MOST_FAILURES = 3, 12
"""Runs of the baseline that end early: from the first number on, only cases are tried that are
nearer to one that works; after the second none."""
RUN = "running the baseline to determine its errors"
Like = Mapping[str, tuple[Case, Case]]
"""Cases that differ from another in their seed only, by key: each with that other."""


@dataclass
class Learning:
    """One time that the baseline is run to be learned from."""

    runner: Runner
    built: Build
    """The baseline."""
    errors: BaselineErrors
    like: Like
    unmeasured: AbstractSet[str]
    """Keys of cases of which only that the baseline is right is learned."""
    tell: Callable[[int, int, str], None] = lambda *_: None
    """Called with runs done, of how many, and what is being done."""
    failed: list[Failed] = field(default_factory=list)
    passed: list[Case] = field(default_factory=list)
    _found: list[MeasuredRun | Case] = field(default_factory=list)
    """Runs to learn from and cases to forget, in their order."""
    _total: int = 0
    """Runs to make, those of failing cases included."""

    def run(self, oracle_cases: Sequence[OracleCase]) -> None:
        """Run the baseline; nothing is learned yet. Raises BadInput where it is refused."""
        self.tell(0, len(oracle_cases), RUN)
        missing, ended = self._launched(oracle_cases), list[Case]()
        self._total = len(missing)
        while missing and len(ended) < MOST_FAILURES:
            done, failure = self._until_failure(missing)
            if failure is None:
                return
            if isinstance(failure, Refused):
                what = failure.findings[0].what
                raise BadInput(f"the baseline of {self.runner.task.name} is refused: {what}")
            bad = failure.case if isinstance(failure, Crashed | Unsafe) else missing[done].case
            self._note(Failed(bad, failure))
            ended.append(bad)
            missing = [one for one in missing[done:] if one.case != bad]
            if isinstance(failure, Unsupported | TimedOut):
                break
            if len(ended) >= TOO_MANY_FAILURES:
                missing = self._hopeful(missing, ended)
        self._not_tried([(one, None) for one in missing])

    def learned(self) -> list[Failed]:
        """What was run is learned; the cases that the baseline fails, and those that were not tried
        because it failed others. A case whose further seeds were not all tried is forgotten: its
        one result may be right by luck."""
        for found in self._found:
            if isinstance(found, Case):
                self.errors.forget(found)
                continue
            _, of = self.like.get(found.case.key, (None, None))
            if of is None or self.errors.knows(of):
                self.errors.take(found, of)
        return self.failed

    def _launched(self, oracle_cases: Sequence[OracleCase]) -> list[OracleCase]:
        """Returns the cases on which the launcher returns no error."""
        bad = unlaunched(self.runner, self.built, [one.case for one in oracle_cases])
        for one in bad:
            self._note(one)
        keys = {one.case.key for one in bad}
        return [one for one in oracle_cases if one.case.key not in keys]

    def _hopeful(self, missing: list[OracleCase], ended: Sequence[Case]) -> list[OracleCase]:
        """Returns the cases that are still tried after so many ended early."""
        found = hopeful([one.case for one in missing], ended, self.passed)
        skipped = zip(missing, found, strict=True)
        self._not_tried([(one, failed.near) for one, failed in skipped if failed])
        return [one for one, failed in zip(missing, found, strict=True) if failed is None]

    def _note(self, failed: Failed) -> None:
        """A case that fails on a further seed is another's: that is not known any more."""
        case = self._stated(failed.case)
        self._found.append(case)
        if all(one.case != case for one in self.failed):
            self.failed.append(Failed(case, failed.outcome, failed.near))

    def _not_tried(self, cases: Sequence[tuple[OracleCase, Case | None]]) -> None:
        for oracle_case, near in cases:
            self._note(Failed(oracle_case.case, None, near))

    def _stated(self, case: Case) -> Case:
        return self.like.get(case.key, (case, case))[1]

    def _until_failure(self, oracle_cases: Sequence[OracleCase]) -> tuple[int, Failure | None]:
        calls = [Call(one) for one in oracle_cases]
        runs = looked_at(
            self.runner.task, self.runner.kept_runs(self.built, calls, "check"), self._measured
        )
        with closing(runs):
            for done, (run, found) in enumerate(runs):
                if not isinstance(run, CaseRun):
                    return done, run
                assert found is not None, "every run was checked"
                self.tell(self._total - len(oracle_cases) + done + 1, self._total, RUN)
                case = run.oracle_case.case
                _, of = self.like.get(case.key, (None, None))
                if isinstance(found, Wrong):
                    if of is None:
                        self.failed.append(Failed(case, found))
                    continue
                self.passed.append(case)
                self._found.append(found)
        return len(oracle_cases), None

    def _measured(self, run: CaseRun) -> MeasuredRun | Wrong:
        verdict, case = compare(self.runner.task, run), run.oracle_case.case
        if isinstance(verdict, Wrong):
            return verdict
        _, of = self.like.get(case.key, (None, None))
        measured = case.key not in self.unmeasured
        return self.errors.measured_of(run, of, measured=measured, worst=verdict)
