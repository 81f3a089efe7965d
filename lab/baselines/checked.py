"""Kernels of others run without a GPU: whether their launchers build, launch and compute what the
contract says. Machine code is not run there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.compare import compare
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import BuildFailed, Case, Device, Wrong
from lab.baselines.foreign import Foreign, Places, foreign_kernels

COPIED = "-DCOPY_INPUT=1"
"""For launchers that are right only if they copy an input, and are timed without the copy."""


@dataclass(frozen=True)
class Checked:
    """One kernel on one case."""

    kernel: Foreign
    case: Case | None
    """None: it does not build."""
    share: float = 0.0
    """Worst |got - expected| / tolerance."""
    wrong: str = ""

    def __str__(self) -> str:
        name = f"{self.kernel.name}, {self.kernel.tier}"
        found = self.wrong or f"{self.share:.2f} of the tolerance"
        return f"{name}: {self.case.label}: {found}" if self.case else f"{name}: {found}"


def check(task: Task, places: Places, device: Device, count: int) -> Iterator[Checked]:
    """Each kernel for which there is source, on the `count` timed cases that move the least."""
    cases = sorted((case for case, _ in task.bench), key=task.least_bytes)[:count]
    runner, oracle = Runner(task, device), Oracle(task)
    try:
        expected = oracle.oracle_cases(cases, Stop())
        for kernel in foreign_kernels(task, places):
            if kernel.cubin:
                continue
            copied = kernel.task.model_copy(update={"flags": (*kernel.task.flags, COPIED)})
            built = build_all(copied, [kernel.source], device, headers=kernel.headers)[0]
            if not isinstance(built, Build):
                log = built.log if isinstance(built, BuildFailed) else "it took too long"
                yield Checked(kernel, None, wrong=f"does not build: {log}")
                continue
            for one in (e for e in expected if kernel.takes(e.case)):
                for run in runner.run(built, [one], "check"):
                    verdict = compare(task, run) if isinstance(run, CaseRun) else run
                    if isinstance(verdict, float):
                        yield Checked(kernel, one.case, verdict)
                    else:
                        words = _words(verdict) if isinstance(verdict, Wrong) else str(verdict)
                        yield Checked(kernel, one.case, wrong=words)
    finally:
        oracle.close()


def _words(wrong: Wrong) -> str:
    place = f"{wrong.argument}{list(wrong.index)}"
    return (
        f"{place} is {wrong.got:.6g}, expected {wrong.expected:.6g}; {wrong.bad} of {wrong.total}"
    )
