"""What one call left behind: its report, and files with the bytes of every argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.output_files import odd_file, odd_set
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.task.buffer_layout import Bytes, Mask, changed_between, gathered, poisoned
from astra_chat.tools.task.folder import Arg
from astra_chat.tools.types import Crashed


@dataclass(frozen=True)
class CaseRun:
    """What a call left behind: files with the bytes of every argument, and the runner's report."""

    oracle_case: OracleCase
    folder: Path
    report: CaseReport
    pattern: int
    """The 16 bits that outputs held before the call, over and over."""
    seed: Seed = NO_SEED
    """Seed of what the judge draws for this call; the runner process does not know it."""
    _first: dict[str, tuple[Bytes, Mask]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What `after` read of the first copy, by argument: several look at it."""

    @property
    def copies(self) -> int:
        """How many calls' results are in its files, one after the other."""
        return self.report.copies

    def after(self, arg: Arg, copy: int = 0) -> tuple[Bytes, Mask]:
        """An argument's elements after the call, as bytes, and which of the bytes round and between
        them changed."""
        if copy == 0 and arg.name in self._first:
            return self._first[arg.name]
        path = self.folder / f"{arg.name}.after"
        size = path.stat().st_size // self.copies
        raw = np.fromfile(path, dtype=np.uint8, count=size, offset=copy * size)
        guard = self.report.guard_bytes
        end = len(raw) - guard
        case = self.oracle_case.case
        content, _ = gathered(arg, case, raw[guard:end])
        between = changed_between(arg, case, raw[guard:end], self.pattern)
        around = poisoned(guard, self.pattern)
        changed = np.concatenate([raw[:guard] != around, between, raw[end:] != around])
        if copy == 0:
            self._first[arg.name] = content, changed
        return content, changed

    def oddity(self, args: Sequence[Arg]) -> Crashed | None:
        """What stands in the place of the results, if these are not what a runner writes."""
        case, guard = self.oracle_case.case, self.report.guard_bytes
        if self.report.sets:
            found = (odd_set(self.folder, one, args, case) for one in self.report.sets)
            odd: str | None = next(filter(None, found), None)
        else:
            odd = odd_file(self.folder, args, case, self.copies, guard)
        what = f"{odd}, where its results belong, is not what the runner writes"
        return Crashed(case=self.oracle_case.case, message=what) if odd else None

    def repeats_the_first(self, args: Sequence[Arg], copy: int) -> bool:
        """Whether all bytes of this copy, guards included, are those of the first."""
        for arg in args:
            path = self.folder / f"{arg.name}.after"
            size = path.stat().st_size // self.copies
            first, other = (
                np.fromfile(path, dtype=np.uint8, count=size, offset=index * size)
                for index in (0, copy)
            )
            if not np.array_equal(first, other):
                return False
        return True

    def coverage(self, arg: Arg) -> Mask | None:
        """Which bytes of the elements the sampled blocks wrote; None where all blocks ran."""
        path = self.folder / f"{arg.name}.written"
        if not path.is_file():
            return None
        written: Mask = np.fromfile(path, dtype=np.bool_)
        return gathered(arg, self.oracle_case.case, written)[0]
