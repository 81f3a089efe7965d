"""Launches that follow a sampled launch, one of which only some blocks ran.

A later launch may read what an earlier one wrote. With the same grid it runs the same blocks. With
another grid the earlier launch is completed first, or the later one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from astra_vgpu.launch.sampling import merged
from astra_vgpu.types import Launch, LaunchReport, PtxUnsupported

WHOLE_FACTOR = 10
"""A launch is run to its end where that costs at most so many times what it had cost."""


class PartsUnsupported(PtxUnsupported):
    """Only a part of an earlier launch ran, and a later one may need the rest."""

    def __init__(self, kernel: str, earlier: str, why: str) -> None:
        super().__init__(why, kernel=kernel, opcode="launch", line=0)
        self.args = (
            f"kernel {kernel}: of the launch of {earlier} before it only a sample of blocks ran,"
            f" and {why}",
        )


@dataclass
class _Part:
    report: LaunchReport
    finish: Callable[[Sequence[int]], LaunchReport]
    """Runs further blocks of it."""
    touched: bool = False
    """Whether the host wrote to device memory since."""


class Parts:
    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.completed: dict[int, LaunchReport] = {}
        """Report of the whole launch, by id() of the report of a part."""

    def touch(self) -> None:
        for part in self._parts:
            part.touched = True

    def before(self, launch: Launch) -> Sequence[int] | None:
        """The blocks that this launch has to run; None leaves it free. Raises PartsUnsupported."""
        if not self._parts:
            return None
        first = self._parts[0].report
        if first.launch.grid == launch.grid:
            return first.ran
        if len(self._parts) > 1:
            raise PartsUnsupported(
                launch.kernel,
                first.launch.kernel,
                "later launches used that sample: one with another grid cannot follow",
            )
        self._complete(self._parts.pop(), launch)
        return None

    def alone(self, launch: Launch) -> None:
        """Prepares for a launch that needs all its blocks. Raises PartsUnsupported."""
        if self.before(launch) is not None:
            why = "a cooperative launch needs all its blocks"
            raise PartsUnsupported(launch.kernel, self._parts[0].report.launch.kernel, why)

    def after(
        self, report: LaunchReport, finish: Callable[[Sequence[int]], LaunchReport]
    ) -> LaunchReport:
        """Takes note of a launch. Raises PartsUnsupported where it read uninitialized memory:
        blocks that were left out would have."""
        if self._parts and any("shared memory" not in one.place for one in report.uninitialized):
            place = report.uninitialized[0].place
            raise PartsUnsupported(
                report.launch.kernel,
                self._parts[0].report.launch.kernel,
                f"it reads what the other blocks would have written: {place}",
            )
        if report.sampled:
            self._parts.append(_Part(report, finish))
        return report

    def _complete(self, part: _Part, later: Launch) -> None:
        report = part.report
        blocks = report.launch.grid.count
        if part.touched:
            why = "host code has written to device memory since, so it cannot be completed"
        elif blocks > WHOLE_FACTOR * report.blocks_run:
            why = f"its {blocks} blocks are too many to run: one of another grid needs them all"
        else:
            done = set(report.ran or ())
            rest = part.finish([b for b in range(blocks) if b not in done])
            self.completed[id(report)] = merged(report, rest)
            return
        raise PartsUnsupported(later.kernel, report.launch.kernel, why)
