"""The attacks and honest kernels of this folder, and each gate of the judge by itself."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from astra_chat.tools.build import nvcc as builder
from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.calls import CheckProgress, check
from astra_chat.tools.check.compute_sanitizer import sanitize_cuda
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.winner import launches_otherwise, winner_fault
from astra_chat.tools.judge import Judge
from astra_chat.tools.policy.binary_audit import audit
from astra_chat.tools.policy.source_guard import guard
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.requests import RUN_TIMEOUT_S, Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names
from astra_chat.tools.timing.verdict import judge_times, time_cases
from astra_chat.tools.types import Case, Correct, Device, Finding, Outcome, Refused, Timed, Value
from lab.attack_kernels import kernels
from tests.attacks.edits import Edit, edited, edited_text

HERE = Path(__file__).parent
CLEAN = Correct(cases=1, worst=0.0)
NOBODY: Callable[[object], None] = [].append
SANITIZED_BYTES = 2**16
"""Larger check cases take a sanitizer seconds; the timed ones go through memcheck."""
MANY_ROWS = 10_000
"""Cases with more rows are left to the attacks that need them: they take seconds each."""


class Attack(Value):
    """A row of attacks.toml."""

    id: str
    name: str
    file: str = ""
    edits: tuple[Edit, ...] = ()
    """Edits of the task's baseline, or of `twin`, instead of a file."""
    twin: str = ""
    """An honest kernel's file name."""
    task: str = ""
    gates: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    gpu: bool = False
    all_cases: bool = False
    endless: bool = False
    virtual_only: bool = False
    cuda_gates: tuple[str, ...] = ()
    """Gates of a real GPU, where they are others: a sanitizer is built into the virtual one."""
    how: str = ""
    test: str = ""
    """Name of the test in test_impossible.py."""

    def runs_on(self, kind: str) -> bool:
        return not (self.virtual_only if kind == "cuda" else self.gpu)

    def gates_on(self, kind: str) -> tuple[str, ...]:
        return self.cuda_gates or self.gates if kind == "cuda" else self.gates

    @property
    def source(self) -> str:
        if self.twin:
            return edited_text(kernels("honest")[self.twin], self.edits, self.id)
        if self.edits:
            return edited(task_of(self.task), self.edits, self.id)
        return kernels("attacks")[self.file]


class Said(Value):
    """What a gate said."""

    caught: bool
    words: str = Field(max_length=400)


@cache
def attacks() -> tuple[Attack, ...]:
    rows = tomllib.loads((HERE / "attacks.toml").read_text())["attack"]
    return tuple(Attack.model_validate(row) for row in rows)


@cache
def task_of(name: str) -> Task:
    return find_task(name) if name in task_names() else load_task(HERE / "tasks" / name)


def honest() -> list[tuple[str, str]]:
    """Task and file of every honest kernel: the task's name begins the file's."""
    own = (path.name for path in (HERE / "tasks").iterdir())
    names = sorted([*own, *task_names()], key=len, reverse=True)
    return [(next(n for n in names if file.startswith(n)), file) for file in kernels("honest")]


class Bench(AbstractContextManager["Bench"]):
    """One task on one device, with the truth of its own cases and the baseline's errors."""

    def __init__(self, task: Task, device: Device) -> None:
        self.task, self.device = task, device
        self.oracle, self.runner = Oracle(task), Runner(task, device)
        self.baseline_errors = BaselineErrors(task)
        self._learned: set[str] = set()

    def __exit__(self, *_: object) -> None:
        self.oracle.close()

    def prepare(self, sources: Sequence[str]) -> None:
        """All that calls share, so that they may come from several threads; builds `sources`."""
        self._learn(self.oracle.oracle_cases(self._cases(False), Stop()))
        build_all(self.task, [self.task.baseline, *sources], self.device)

    def build(self, source: str) -> Build | Any:
        return build_all(self.task, [source], self.device)[0]

    def guarded(self, source: str) -> tuple[Finding, ...]:
        return guard(source, self.task.entry)

    def audited(self, source: str) -> tuple[Finding, ...]:
        built = self.build(source)
        assert isinstance(built, Build), built
        return audit(built, self.task, source)

    def checked(
        self, source: str, all_cases: bool = False, seen: CheckProgress | None = None
    ) -> Outcome:
        """Run on the task's own cases, whatever guard and audit say."""
        built = self.build(source)
        assert isinstance(built, Build), built
        cases = self._cases(all_cases)
        oracle_cases = self.oracle.oracle_cases(cases, Stop())
        self._learn(oracle_cases)
        calls = [Call(oracle_case) for oracle_case in oracle_cases]
        if self.device.kind == "cuda":
            calls.append(Call(oracle_cases[1], "graph"))
        return check(self.runner, built, calls, self.baseline_errors, seen or CheckProgress())

    def sanitized(self, source: str) -> Outcome:
        """Compute Sanitizer, whatever the other gates say."""
        built, baseline = self.build(source), self.build(self.task.baseline)
        assert isinstance(built, Build) and isinstance(baseline, Build), built
        small = [c for c in self.task.check if self.task.least_bytes(c) < SANITIZED_BYTES]
        bench = [case for case, _ in self.task.bench]
        oracle_cases, timed = (self.oracle.oracle_cases(cases, Stop()) for cases in (small, bench))
        return sanitize_cuda(self.runner, built, oracle_cases, timed, baseline=baseline) or CLEAN

    def confirmable(self, source: str) -> Outcome:
        """What a winner has to pass before it is timed again (tools/check/winner.py)."""
        built, baseline = self.build(source), self.build(self.task.baseline)
        assert isinstance(built, Build) and isinstance(baseline, Build), built

        def oracle_cases(cases: Sequence[Case]) -> list[OracleCase]:
            return self.oracle.oracle_cases(cases, Stop())

        timed = [case for case, _ in self.task.bench]
        return (
            winner_fault(
                self.runner,
                built,
                baseline,
                self.oracle,
                self._cases(False),
                timed,
                oracle_cases,
                NOBODY,
            )
            or CLEAN
        )

    def shipped(self, source: str) -> Outcome:
        """Its launcher with NVIDIA's runtime beside its plans, as of a winner."""
        built, baseline = self.build(source), self.build(self.task.baseline)
        assert isinstance(built, Build) and isinstance(baseline, Build), built
        oracle_cases = self.oracle.oracle_cases(self._cases(False), Stop())
        return launches_otherwise(self.runner, built, oracle_cases, baseline) or CLEAN

    def _cases(self, everything: bool) -> list[Case]:
        return [c for c in self.task.check if everything or c.dims.get("rows", 1) < MANY_ROWS]

    def _learn(self, oracle_cases: Sequence[OracleCase]) -> None:
        unknown = [t for t in oracle_cases if t.case.label not in self._learned]
        if unknown:
            for run in self.runner.run(self.build(self.task.baseline), unknown, "check"):
                assert isinstance(run, CaseRun), run
                self.baseline_errors.learn(run)
                self._learned.add(run.oracle_case.case.label)

    def timed(self, source: str) -> str:
        """Verdict of the timing alone, or the kind of outcome that ended it."""
        built, baseline = self.build(source), self.build(self.task.baseline)
        assert isinstance(built, Build) and isinstance(baseline, Build), built
        cases = self.task.demo if self.device.kind == "virtual" else self.task.bench
        oracle_cases = self.oracle.oracle_cases([case for case, _ in cases], Stop())
        weighted = [(t, weight) for t, (_, weight) in zip(oracle_cases, cases, strict=True)]
        found = time_cases(
            self.runner,
            self.oracle,
            built,
            baseline,
            weighted,
            NOBODY,
            self.baseline_errors,
            self._learn,
        )
        return judge_times([t.time for t in found])[1] if isinstance(found, list) else found.kind

    def confirmed(self, source: str) -> str:
        """The judge's verdict on fresh seeds, or the kind of outcome that ended it before."""
        with Judge(self.task, self.device) as judge:
            outcome = judge.evaluate(source, fresh_seeds=True).outcome
        return outcome.verdict if isinstance(outcome, Timed) else outcome.kind


@contextmanager
def short_limits() -> Iterator[None]:
    """Hangs and compile bombs must end; that they end after two minutes need not be waited for."""
    kept = (builder.BUILD_TIMEOUT_S, builder.BUILD_MEMORY_BYTES, RUN_TIMEOUT_S["check"])
    builder.BUILD_TIMEOUT_S, builder.BUILD_MEMORY_BYTES = 30.0, 2 * 2**30
    RUN_TIMEOUT_S["check"] = 6.0
    try:
        yield
    finally:
        builder.BUILD_TIMEOUT_S, builder.BUILD_MEMORY_BYTES = kept[:2]
        RUN_TIMEOUT_S["check"] = kept[2]


def caught(bench: Bench, attack: Attack, gate: str) -> Said:
    """What one gate by itself says about an attack."""
    if attack.endless:
        with short_limits():
            return _caught(bench, attack, gate)
    return _caught(bench, attack, gate)


def _caught(bench: Bench, attack: Attack, gate: str) -> Said:
    if gate == "audit" and not isinstance(bench.build(attack.source), Build):
        return Said(caught=True, words="it does not link with the CUDA runtime")
    if gate in ("guard", "audit"):
        found = (bench.guarded if gate == "guard" else bench.audited)(attack.source)
        words = "; ".join(f"line {f.line}: {f.what}" for f in found[:2])
        return Said(caught=bool(found), words=words[:400])
    if gate == "build":
        built = bench.build(attack.source)
        words = "" if isinstance(built, Build) else getattr(built, "log", built.kind)
        return Said(caught=not isinstance(built, Build), words=words.split("\n")[0][:400])
    if gate == "sanitize":
        outcome = bench.sanitized(attack.source)
        return Said(caught=outcome.kind in attack.outcome, words=outcome_words(outcome)[:400])
    if gate in ("time", "confirm"):
        verdict = (bench.timed if gate == "time" else bench.confirmed)(attack.source)
        return Said(caught=verdict in attack.outcome, words=verdict)
    outcome = bench.checked(attack.source, attack.all_cases)
    return Said(caught=outcome.kind in attack.outcome, words=outcome_words(outcome)[:400])


def outcome_words(outcome: Outcome) -> str:
    if isinstance(outcome, Refused):
        return f"refused: {outcome.findings[0].what}"
    said = outcome.model_dump()
    parts = [str(said[k]) for k in ("reason", "argument", "what", "message") if said.get(k)]
    return f"{outcome.kind}: {', '.join(parts)}" if parts else outcome.kind


def honest_words(bench: Bench, source: str) -> str:
    """ "correct", or what a gate, or a warning, has against an honest kernel."""
    if findings := bench.guarded(source):
        return outcome_words(Refused(gate="guard", findings=findings))
    built = bench.build(source)
    if not isinstance(built, Build):
        return f"{built.kind}: {getattr(built, 'log', '')}"[:400]
    if findings := bench.audited(source):
        return f"refused: {findings[0].what}"
    seen = CheckProgress()
    words = outcome_words(bench.checked(source, seen=seen))
    if words == CLEAN.kind and bench.device.kind == "cuda":
        words = outcome_words(bench.shipped(source))
    return "; ".join([words, *seen.warnings.values()])[:400]
