"""Runs attacks and honest kernels through the judge's gates, each gate by itself.

`python tests/attacks/suite.py` writes docs/research/attacks.md from attacks.toml, found.md,
limits.md and what was recorded; `--record virtual` (or cuda) runs everything first, or what
`--only` names, of which several GPUs may each do a part at once. `--record sanitizers` runs the
honest kernels through what a winner has to pass before it is confirmed: its launcher beside its
plans, Compute Sanitizer, the virtual GPU's sanitizer.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from astra_chat.tools.build import nvcc as builder
from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.calls import Call, CheckProgress, check
from astra_chat.tools.check.compute_sanitizer import sanitize_cuda
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.shipped_launcher import launches_otherwise
from astra_chat.tools.check.winner import winner_fault
from astra_chat.tools.judge import Judge
from astra_chat.tools.policy.binary_audit import audit
from astra_chat.tools.policy.source_guard import guard
from astra_chat.tools.run.batch import RUN_TIMEOUT_S
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.system.whole_file import write_whole
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names
from astra_chat.tools.timing.verdict import judge_times, time_cases
from astra_chat.tools.types import (
    Case,
    Correct,
    Device,
    Finding,
    Outcome,
    Refused,
    Timed,
    Value,
)

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "research" / "attacks.md"
FOUND, LIMITS, RECORD = (HERE / name for name in ("found.md", "limits.md", "recorded.json"))
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
    task: str = ""
    gates: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    gpu: bool = False
    all_cases: bool = False
    endless: bool = False
    virtual_only: bool = False
    cuda_gates: tuple[str, ...] = ()
    """Those of a real GPU, where they are others: a sanitizer is built into the virtual one."""
    how: str = ""
    test: str = ""
    """Of test_impossible.py."""

    def runs_on(self, kind: str) -> bool:
        return not (self.virtual_only if kind == "cuda" else self.gpu)

    def gates_on(self, kind: str) -> tuple[str, ...]:
        return self.cuda_gates or self.gates if kind == "cuda" else self.gates

    @property
    def source(self) -> str:
        return (HERE / "kernels" / self.file).read_text()


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
    names = [*(path.name for path in (HERE / "tasks").iterdir()), *task_names()]
    found = sorted((HERE / "honest").glob("*.cu"))
    return [(next(n for n in names if p.name.startswith(n)), p.name) for p in found]


def honest_source(file: str) -> str:
    return (HERE / "honest" / file).read_text()


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
        return winner_fault(
            self.runner, built, baseline, self.oracle, self._cases(False), timed, oracle_cases,
            NOBODY,
        ) or CLEAN  # fmt: skip

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
            self.runner, self.oracle, built, baseline, weighted, NOBODY, self.baseline_errors,
            self._learn,
        )  # fmt: skip
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


def record(kind: str, workers: int, only: str = "") -> None:
    """Run attacks and honest kernels, those whose id or file matches `only`; keep what was seen.

    Several at once; those that are timed last and fewer at once, as the GPU lock lets one of them
    measure at a time, and those that end by a time limit one by one, as they change the limits.
    """
    device = pick_device(kind)
    if not only:
        _keep(device, said={"device": device.name, "attacks": {}, "honest": {}})
    wanted = [a for a in attacks() if re.fullmatch(only or ".*", a.id)]
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    names = sorted({a.task for a in wanted if a.task} | {t for t, _ in right})
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        benches = {name: stack.enter_context(Bench(task_of(name), device)) for name in names}

        def prepare(name: str) -> None:
            sources = [a.source for a in wanted if a.task == name and not a.endless]
            sources += [honest_source(file) for task, file in right if task == name]
            benches[name].prepare(sources)

        list(pool.map(prepare, names))
        todo = [(a, g) for a in wanted for g in a.gates_on(kind) if a.runs_on(kind)]
        endless = [(a, g) for a, g in todo if a.endless]
        late = [(a, g) for a, g in todo if not a.endless and g in ("time", "confirm")]
        list(pool.map(lambda pair: _note_honest(benches[pair[0]], pair[1]), right))
        list(pool.map(lambda pair: _note(benches, *pair), set(todo) - {*late, *endless}))
        with ThreadPoolExecutor(max(1, workers // 4)) as few:
            list(few.map(lambda pair: _note(benches, *pair), late))
        for attack, gate in endless:
            _note(benches, attack, gate)


def record_sanitizers(workers: int, only: str = "") -> None:
    """What honest kernels would have to pass as winners, those whose file matches `only`."""
    device = pick_device("cuda")
    right = [pair for pair in honest() if re.fullmatch(only or ".*", pair[1])]
    with ExitStack() as stack, ThreadPoolExecutor(workers) as pool:
        benches = {t: stack.enter_context(Bench(task_of(t), device)) for t, _ in right}
        for task, bench in benches.items():
            bench.prepare([honest_source(f) for t, f in right if t == task])

        def note(pair: tuple[str, str]) -> None:
            said = outcome_words(benches[pair[0]].confirmable(honest_source(pair[1])))
            _keep(device, "sanitized", pair[1], said=said[:400])
            _say(f"{pair[1]} {said}")

        list(pool.map(note, right))


def _note(benches: dict[str, Bench], attack: Attack, gate: str) -> None:
    bench = benches[attack.task]
    found = caught(bench, attack, gate)
    _keep(bench.device, "attacks", attack.id, gate, said=found.model_dump())
    _say(f"{attack.id} {gate} {'caught' if found.caught else f'MISSED: {found.words}'}")


def _note_honest(bench: Bench, file: str) -> None:
    said = honest_words(bench, honest_source(file))
    _keep(bench.device, "honest", file, said=said)
    _say(f"{file} {said}")


def _say(line: str) -> None:
    """In one piece, beside other threads."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _keep(device: Device, *place: str, said: object) -> None:
    """At once, beside what others write: a run that is stopped leaves what it has seen."""
    folder = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
        recorded_as = device.spec if device.kind == "cuda" else "virtual"
        known.setdefault(recorded_as, {"device": device.name, "attacks": {}, "honest": {}})
        at, last = known, recorded_as
        for name in place:
            at, last = at.setdefault(last, {}), name
        at[last] = said
        write_whole(RECORD, (json.dumps(known, indent=1, sort_keys=True) + "\n").encode())
    finally:
        os.close(folder)


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


def document() -> str:
    """docs/research/attacks.md."""
    known = json.loads(RECORD.read_text())
    on = sorted(known, key=lambda name: (name != "virtual", name != "h200", name))
    lines = [
        "# Attacks",
        "",
        "Ways to look fast without being fast, and the step of the judge that catches each. T, S"
        " and H come from published catalogues (timing, semantics, harness); X are our own."
        " `python tests/attacks/suite.py` writes this page from `tests/attacks/attacks.toml` and"
        " from what `--record` recorded; a test runs the same table. Where several steps are named,"
        " each was also tried with the earlier ones left out.",
        "",
        *(_summary(name, known[name]) for name in on),
        "",
        f"| id | attack | gates | {' | '.join(on)} | evidence |",
        f"|---|---|---|{'---|' * len(on)}---|",
        *(_row(attack, on, known) for attack in attacks()),
        "",
        FOUND.read_text(),
        LIMITS.read_text(),
    ]
    return "\n".join(lines)


def _summary(name: str, seen: dict[str, Any]) -> str:
    gates = [s for found in seen["attacks"].values() for s in found.values()]
    whole = [all(s["caught"] for s in found.values()) for found in seen["attacks"].values()]
    states = list(seen["honest"].values())
    lacking = sum(state.startswith("unsupported") for state in states)
    good = sum(state.startswith("correct") for state in states)
    watched = list(seen.get("sanitized", {}).values())
    clean = f"; sanitizers find nothing in {watched.count(CLEAN.kind)} of {len(watched)}"
    return (
        f"- `{name}` ({seen['device']}): {sum(whole)} of {len(whole)} attacks caught"
        f" ({sum(s['caught'] for s in gates)} of {len(gates)} gates, each by itself);"
        f" {good} of {len(states) - lacking} honest kernels accepted"
        f"{f', {lacking} more need instructions that it lacks' if lacking else ''}"
        f"{clean if watched else ''}."
    )


def _row(attack: Attack, on: list[str], known: dict[str, Any]) -> str:
    if attack.test:
        blank = " | ".join("-" for _ in on)
        return f"| {attack.id} | {attack.name} | impossible | {blank} | `{attack.test}` |"
    marks, words = [], attack.how
    for name in on:
        found = known[name]["attacks"].get(attack.id)
        marks.append(_mark(found))
        if found and not words:
            words = next(iter(found.values()))["words"]
    shown, gates = words.replace("|", "\\|"), dict.fromkeys((*attack.gates, *attack.cuda_gates))
    shown = shown.replace("\n", " ")[:160]
    return f"| {' | '.join((attack.id, attack.name, ', '.join(gates), *marks, shown))} |"


def _mark(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not run"
    return "caught" if all(s["caught"] for s in found.values()) else "**missed**"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", choices=("virtual", "cuda", "sanitizers"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="pattern of ids and of honest kernels' files")
    options = parser.parse_args()
    if options.record == "sanitizers":
        record_sanitizers(options.workers, options.only)
    elif options.record:
        record(options.record, options.workers, options.only)
    DOCUMENT.write_text(document())


if __name__ == "__main__":
    main()
