"""Judges sources of a contract on its check cases: honest variants and planted faults, all in one
build, by the gates of a candidate: oracle, tolerance, precision, guard bands; on the virtual GPU by
its sanitizer, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compare import compare
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutants import BuiltMutant, Mutant, build_mutants
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_chat.tools.types import DTYPE_CODES, Device, DTypeName, Wrong

FOLDER = Path(__file__).parent
SHIPPED = FOLDER.parent / "sglang_kernels"
CONTRACTS = sorted(path.parent.name for path in FOLDER.glob("*/task.toml"))


def contract(name: str) -> Task:
    """One of the contracts beside this file, or a shipped task."""
    return load_task(FOLDER / name) if name in CONTRACTS else find_task(name)


def variants(name: str) -> dict[str, str]:
    """Honest kernels of a contract, or of a shipped task, that are not its baseline, by name."""
    folders = (FOLDER / "variants" / name, SHIPPED / "variants" / name)
    return {path.stem: path.read_text() for folder in folders for path in folder.glob("*.cu")}


def narrowed(task: Task, dtype: DTypeName) -> tuple[Task, str]:
    """A task with the check cases of one dtype, and its baseline without the kernels of the others:
    a fault costs as much less to build and to run."""
    others = "|".join(str(DTYPE_CODES[other]) for other in task.dtypes if other != dtype)
    case = rf"^    case (?:{others}):.*?;\n"
    source, count = re.subn(case, "", task.baseline, flags=re.MULTILINE | re.DOTALL)
    assert count == len(task.dtypes) - 1, f"{count} cases of other dtypes"
    cases = tuple(one for one in task.check if one.dtype == dtype)
    return task.model_copy(update={"check": cases}), source


def planted(source: str, edits: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The source with one of these edits each: the text to replace stands in it once."""
    changed = {}
    for name, (old, new) in edits.items():
        assert source.count(old) == 1, f"{name}: {source.count(old)} places"
        changed[name] = source.replace(old, new)
    return changed


def judged(
    task: Task, faults: Mapping[str, str], device: Device
) -> dict[str, Wrong | Failure | None]:
    """What is wrong with each planted fault, by name. Fails where an honest variant is wrong, or a
    planted fault is not."""
    honest = variants(task.name)
    found = verdicts(task, {**honest, **faults}, device)
    require_honest(task, found)
    require_caught(faults, found)
    return found


def require_honest(task: Task, found: Mapping[str, Wrong | Failure | None]) -> None:
    honest = variants(task.name)
    assert honest, f"{task.name} has no honest variants"
    wrong = {name: found[name] for name in honest if found[name]}
    assert not wrong, f"honest variants are wrong: {wrong}"


def require_caught(faults: Mapping[str, str], found: Mapping[str, Wrong | Failure | None]) -> None:
    passed = [name for name in faults if found[name] is None]
    assert not passed, f"{len(passed)} of {len(faults)} planted faults pass: {passed}"


def verdicts(
    task: Task, sources: Mapping[str, str], device: Device
) -> dict[str, Wrong | Failure | None]:
    """What is wrong with each source on the check cases, by name; None: nothing."""
    stop, entropy = Stop(), Entropy("c17")
    runner = Runner(task, device, stop, seed=entropy.cases)
    oracle = Oracle(task)
    try:
        checker = Checker(runner, oracle, entropy)
        oracle_cases = oracle.oracle_cases(sorted(task.check, key=task.least_bytes), stop)
        failed = checker.learn(oracle_cases)
        assert not failed, failed
        mutants = [Mutant(name, 1, "", name, source) for name, source in sources.items()]
        built = build_mutants(task, mutants, device, stop)
        assert {one.mutant.operator for one in built} == set(sources), "some do not build"
        found: dict[str, Wrong | Failure | None] = dict.fromkeys(sources)
        half = len(oracle_cases) // 2
        # Most faults show on the smaller cases, and need not be called on the others.
        for some in (oracle_cases[:half], oracle_cases[half:]):
            left = [(one, case) for one in built if not found[_name(one)] for case in some]
            while left:
                library = left[0][0].build
                same = [call for call in left if call[0].build.folder == library.folder]
                done = _judge(task, runner, checker, same, found)
                left = [c for c in left if c not in same[:done] and not found[_name(c[0])]]
        return found
    finally:
        oracle.close()


def _judge(
    task: Task,
    runner: Runner,
    checker: Checker,
    calls: list[tuple[BuiltMutant, OracleCase]],
    found: dict[str, Wrong | Failure | None],
) -> int:
    """How many of these calls of one build were made: on a GPU a failure ends the process."""
    asked = [Call(case, entry=one.entry) for one, case in calls]
    done = 0
    for run in runner.run_calls(calls[0][0].build, asked, "check"):
        name = _name(calls[done][0])
        found[name] = found[name] or _wrong(task, checker, run)
        done += 1
    assert done, "the runner made no call"
    return done


def _name(one: BuiltMutant) -> str:
    return one.mutant.operator


def _wrong(task: Task, checker: Checker, run: CaseRun | Failure) -> Wrong | Failure | None:
    if not isinstance(run, CaseRun):
        return run
    outcome = compare(task, run)
    verdict = outcome if isinstance(outcome, Wrong) else checker.baseline_errors.judge(run)
    return verdict if isinstance(verdict, Wrong) else None
