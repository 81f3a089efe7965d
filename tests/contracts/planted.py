"""Judges sources of a contract on its check cases, on the virtual GPU: honest variants and planted
faults, all in one build, by the gates of a candidate: oracle, tolerance, precision, sanitizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.compare import compare
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.mutation.mutants import Built, Mutant, build_mutants
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Wrong

FOLDER = Path(__file__).parent


def contract(name: str) -> Task:
    return load_task(FOLDER / name)


def variants(name: str) -> dict[str, str]:
    """Honest kernels of a contract that are not its baseline, by name."""
    return {path.stem: path.read_text() for path in (FOLDER / "variants" / name).glob("*.cu")}


def planted(source: str, edits: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The source with one of these edits each: the text to replace stands in it once."""
    changed = {}
    for name, (old, new) in edits.items():
        assert source.count(old) == 1, f"{name}: {source.count(old)} places"
        changed[name] = source.replace(old, new)
    return changed


def verdicts(task: Task, sources: Mapping[str, str]) -> dict[str, Wrong | Failure | None]:
    """What is wrong with each source on the check cases, by name; None: nothing."""
    device, stop, entropy = pick_device("virtual"), Stop(), Entropy("c17")
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
        for one, wrong in _wrongs(task, runner, checker, built, oracle_cases):
            if found[one.mutant.operator] is None:
                found[one.mutant.operator] = wrong
        return found
    finally:
        oracle.close()


def _wrongs(
    task: Task,
    runner: Runner,
    checker: Checker,
    built: list[Built],
    oracle_cases: list[OracleCase],
) -> list[tuple[Built, Wrong | Failure]]:
    left = [(one, oracle_case) for one in built for oracle_case in oracle_cases]
    wrongs: list[tuple[Built, Wrong | Failure]] = []
    while left:
        library = left[0][0].build
        same = [(one, case) for one, case in left if one.build.folder == library.folder]
        entries = [one.entry for one, _ in same]
        done = 0
        for run in runner.run(library, [case for _, case in same], "check", entries=entries):
            one = same[done][0]
            wrong = _wrong(task, checker, run)
            if wrong:
                wrongs.append((one, wrong))
            done += 1
        gone = same[: max(1, done)]
        left = [call for call in left if call not in gone]
    return wrongs


def _wrong(task: Task, checker: Checker, run: CaseRun | Failure) -> Wrong | Failure | None:
    if not isinstance(run, CaseRun):
        return run
    outcome = compare(task, run)
    verdict = outcome if isinstance(outcome, Wrong) else checker.baseline_errors.judge(run)
    return verdict if isinstance(verdict, Wrong) else None
