"""How many kernels that are wrong in one region of the valid domain does the judge catch?

`python -m lab.planted` draws faults of every shipped task (planted_faults.py),
makes sure that each is wrong on a legal case, checks it as a first evaluation does and, if that
finds nothing, as a confirmation does; and writes docs/research/planted.md. On the virtual GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.calls import check
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Correct, Unsupported
from astra_vgpu.ground.errors import AstraError
from lab.commands import one_line_errors
from lab.judging_processes import judging_processes
from lab.planted_faults import Fault, faults, source

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "research" / "planted.md"
COUNT = 40
A_JUDGE = 10
"""Faults that one judge sees; the next has drawn other cases."""


@dataclass(frozen=True)
class FaultJudgement:
    """What came of one fault."""

    task: str
    fault: Fault
    real: bool
    """Whether it is wrong on the case inside its region."""
    first: str
    """Kind of the outcome of the first evaluation's check."""
    confirmation: str = ""
    """Kind of the outcome of the confirmation's check; "" where none was needed."""

    @property
    def caught_first(self) -> bool:
        return self.first not in ("correct", "unsupported")

    @property
    def caught(self) -> bool:
        return self.caught_first or self.confirmation not in ("", "correct", "unsupported")


def judged(task: Task, planted: Sequence[Fault], root: str) -> Iterator[FaultJudgement]:
    """Check these faults by one judge. Raises AstraError where one does not build."""
    device, stop, entropy = pick_device("virtual"), Stop(), Entropy(root)
    runner, oracle = Runner(task, device, stop, seed=entropy.cases), Oracle(task)
    checker = Checker(runner, oracle, entropy)
    try:
        for fault, built in zip(
            planted, build_all(task, [source(task, f) for f in planted], device), strict=True
        ):
            if not isinstance(built, Build):
                raise AstraError(f"{fault.words}: the planted kernel does not build: {built}")
            inside = oracle.oracle_cases([fault.case], stop)
            alone = check(runner, built, [Call(inside[0])])
            real = not isinstance(alone, Correct | Unsupported)
            first, _ = checker.check(built, ())
            confirmation = ""
            if isinstance(first, Correct):
                confirmation = checker.check(built, (), confirming=True)[0].kind
            yield FaultJudgement(task.name, fault, real, first.kind, confirmation)
    finally:
        oracle.close()


def all_judged(
    count: int, workers: int, seed: str, tasks: Sequence[str] = ()
) -> list[FaultJudgement]:
    """Faults of these tasks, or of all shipped ones, `count` of each; several judges at once, each
    in a process of its own."""
    made: list[FaultJudgement] = []
    with judging_processes(workers) as pool:
        turns = [
            pool.submit(_some_judged, name, count, seed, start)
            for name in tasks or task_names()
            for start in range(0, count, A_JUDGE)
        ]
        for turn in as_completed(turns):
            made += turn.result()
    return made


def _some_judged(name: str, count: int, seed: str, start: int) -> list[FaultJudgement]:
    """What one judge sees of a task's faults: those from number `start` on."""
    task, made = find_task(name), []
    planted = list(faults(task, count, seed))[start : start + A_JUDGE]
    for one in judged(task, planted, os.urandom(16).hex()):
        made.append(one)
        words = "caught" if one.caught_first else f"missed, then {one.confirmation}"
        real = "" if one.real else " (not wrong on its case)"
        sys.stderr.write(f"{one.task}: {one.fault.kind}: {one.fault.words}: {words}{real}\n")
        sys.stderr.flush()
    return made


def document(made: Sequence[FaultJudgement], seed: str) -> str:
    """The page: by task, by kind of region, and what was missed."""
    real = [one for one in made if one.real]
    lines = [
        "# Planted faults: kernels that are wrong in one region of the valid domain",
        "",
        f"This page is written by `python -m lab.planted --seed {seed}` on `virtual`. Each"
        " kernel is a task's baseline with a planted fault",
        "that is visible in only one drawn region. Kernels that are wrong on a valid case inside"
        f" their region are counted: {len(real)} of {len(made)}.",
        "",
        "| task | faults | caught at the first evaluation | also counting the confirmation |",
        "|---|---|---|---|",
        *(
            _row(name, [o for o in real if o.task == name])
            for name in sorted({o.task for o in real})
        ),
        _row("all", real),
        "",
        "| region | faults | caught at the first evaluation | also counting the confirmation |",
        "|---|---|---|---|",
        *(
            _row(kind, [o for o in real if o.fault.kind == kind])
            for kind in sorted({o.fault.kind for o in real})
        ),
    ]
    missed = [one for one in real if not one.caught_first]
    if missed:
        lines += ["", "Missed at the first evaluation:", ""]
        lines += [
            f"- {o.task}: {o.fault.kind}, `{o.fault.words}`"
            f" (confirmation: {'caught' if o.caught else 'missed'})"
            for o in sorted(missed, key=lambda o: (o.task, o.fault.kind, o.fault.words))
        ]
    return "\n".join(lines) + "\n"


def _row(name: str, made: Sequence[FaultJudgement]) -> str:
    first, all_ = sum(o.caught_first for o in made), sum(o.caught for o in made)
    share = 100 / max(1, len(made))
    shares = (f"{found} ({found * share:.0f} %)" for found in (first, all_))
    return f"| {name} | {len(made)} | {' | '.join(shares)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.planted")
    parser.add_argument("--count", type=int, default=COUNT, help="Faults per task.")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument(
        "--seed", default="1", help="Seed for the faults; the judges draw fresh seeds."
    )
    parser.add_argument("--tasks", nargs="*", default=(), help="Only these tasks; default: all.")
    parser.add_argument("--out", type=Path, default=DOCUMENT)
    given = parser.parse_args()
    with one_line_errors():
        made = all_judged(given.count, given.workers, given.seed, given.tasks)
    given.out.write_text(document(made, given.seed))
    print(_row("all", [one for one in made if one.real]))


if __name__ == "__main__":
    main()
