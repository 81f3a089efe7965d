"""Runs blocks on the NumPy engine while the host compiler works, and the rest on the C engine."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

from astra_vgpu.c_engine import Program
from astra_vgpu.launch.sampling import Run, merged
from astra_vgpu.types import Launch, LaunchReport

PART_LANES = 65536
"""Threads that NumPy runs between two looks at whether the compiler is done."""
RunProgram = Callable[[Program, Sequence[int] | None, bool], LaunchReport]


class Compiling:
    """A kernel that is being compiled for the C engine. A launch that ends before does not wait
    for it."""

    def __init__(self, prepare: Callable[[], Program | None]) -> None:
        self._prepare = prepare
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.program: Program | None = None
        """None until it is ready to run, and for good where it cannot be had."""
        self._thread.start()

    def _work(self) -> None:
        self.program = self._prepare()

    def wait(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)


def run_meanwhile(
    launch: Launch,
    on_numpy: Run,
    on_c: RunProgram,
    compiling: Compiling,
    blocks: Sequence[int] | None,
    counting: bool,
) -> LaunchReport:
    """Runs these blocks, or all: part by part on NumPy until the program is there."""
    left = list(range(launch.grid.count) if blocks is None else blocks)
    step = max(PART_LANES // launch.block.count, 1)
    reports: list[LaunchReport] = []
    while left and compiling.program is None:
        reports.append(on_numpy(left[:step], counting))
        left = left[step:]
    if left and compiling.program is not None:
        reports.append(on_c(compiling.program, left, counting))
    return functools.reduce(merged, reports)
