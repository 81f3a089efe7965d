"""What one call left behind: its report, and files with the bytes of every argument."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np

from astra_chat.tools.entropy import NO_SEED, Seed
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, FetchedSet
from astra_chat.tools.system.background import remove_soon
from astra_chat.tools.system.cores import cores
from astra_chat.tools.task.buffer_layout import (
    Bytes,
    Mask,
    buffer_bytes,
    elements_and_changes,
    gathered,
    poisoned,
)
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, Crashed


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

    _digests: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `digest` found, by the names of the arguments."""

    @property
    def copies(self) -> int:
        """How many calls' results are in its files, one after the other."""
        return self.report.copies

    def remove(self) -> None:
        """Delete its files, which can be large."""
        remove_soon(self.folder)

    def is_unchanged(self, arg: Arg) -> bool:
        """Whether the runner says that an argument which may only be read was left as it was. It
        says so instead of writing the same bytes to a file: of either the runner alone knows."""
        return arg.constant and arg.name in self.report.unchanged

    def after(self, arg: Arg, copy: int = 0) -> tuple[Bytes, Mask]:
        """An argument's elements after the call, as bytes, and which of the bytes round and between
        them changed."""
        if copy == 0 and arg.name in self._first:
            return self._first[arg.name]
        case = self.oracle_case.case
        if self.is_unchanged(arg):
            given: Bytes = np.fromfile(self.oracle_case.input_path(arg), dtype=np.uint8)
            return given, np.zeros(bytes_between(arg, case), np.bool_)
        path = self.folder / f"{arg.name}.after"
        size = path.stat().st_size // self.copies
        raw = np.fromfile(path, dtype=np.uint8, count=size, offset=copy * size)
        guard = self.report.guard_bytes
        end = len(raw) - guard
        content, between = elements_and_changes(arg, case, raw[guard:end], self.pattern)
        around = self._guard
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
            filed = [arg for arg in args if not self.is_unchanged(arg)]
            odd = odd_file(self.folder, filed, case, self.copies, guard)
        what = f"the results were replaced by {odd}, which the runner did not write"
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

    def digest(self, args: Sequence[Arg]) -> bytes:
        """The sha256 of what the first copy left in the written ones, but for what blocks outside a
        sample would have written."""
        names = " ".join(arg.name for arg in args)
        if names not in self._digests:
            found = sha256()
            for arg in args:
                if arg.written:
                    content, covered = self.after(arg)[0], self.coverage(arg)
                    found.update((content if covered is None else content[covered]).data)
            self._digests[names] = found.digest()
        return self._digests[names]

    def coverage(self, arg: Arg) -> Mask | None:
        """Which bytes of the elements the sampled blocks wrote; None where all blocks ran."""
        name = f"{arg.name}.written"
        if name not in self._files:
            return None
        written: Mask = np.fromfile(self.folder / name, dtype=np.bool_)
        return gathered(arg, self.oracle_case.case, written)[0]

    @cached_property
    def _guard(self) -> Bytes:
        """What lies before and after each argument."""
        return poisoned(self.report.guard_bytes, self.pattern)

    @cached_property
    def _files(self) -> frozenset[str]:
        try:
            return frozenset(os.listdir(self.folder))  # noqa: PTH208
        except FileNotFoundError:  # results that were made without a call
            return frozenset()


def bytes_between(arg: Arg, case: Case) -> int:
    """Bytes between the elements of an argument; rows may overlap, too."""
    return max(0, buffer_bytes(arg, case) - arg.bytes_of(case))


def is_plain(path: Path, size: int) -> bool:
    """Whether it is an ordinary file of so many bytes; links are not followed."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def odd_file(
    folder: Path, args: Sequence[Arg], case: Case, copies: int = 1, guard_bytes: int = 0
) -> str | None:
    """The first file that is not what the runner writes for a call of this case, or for several."""
    for arg in args:
        size = buffer_bytes(arg, case)
        if not is_plain(folder / f"{arg.name}.after", copies * (size + 2 * guard_bytes)):
            return f"{arg.name}.after"
        written = folder / f"{arg.name}.written"
        if written.is_symlink() or (written.exists() and not is_plain(written, size)):
            return written.name
    return None


def odd_set(folder: Path, fetched: FetchedSet, args: Sequence[Arg], case: Case) -> str:
    """Returns the first file of a buffer set of timed launches that is not what the runner writes;
    "" if all are."""
    place, wanted = folder / fetched.folder, dict[Path, int]()
    for arg in args:
        if arg.written:
            wanted[place / f"{arg.name}.after"] = buffer_bytes(arg, case)
            if fetched.baseline:
                wanted[place / "baseline" / f"{arg.name}.after"] = buffer_bytes(arg, case)
        if arg.read and not fetched.own:
            wanted[place / f"{arg.name}.in"] = arg.bytes_of(case)
    odd = (path for path, size in wanted.items() if not is_plain(path, size))
    return next((str(path.relative_to(folder)) for path in odd), "")


def taken(folder: Path) -> Path:
    """Where a runner's results lie from now on: where it has no way to them."""
    away = folder.with_name(f"{folder.parent.name}-{folder.name}")
    return folder.rename(folder.parent.parent / away.name)


# Runs that several threads look at, in the runs' order: NumPy lets go of the interpreter while it
# works on large arrays.

MOST_THREADS = 8
"""Each has the arrays of a case in memory."""
SMALL_BYTES = 2**16
"""A smaller case is looked at at once: to hand it over takes as long."""
T = TypeVar("T")
Looked = tuple[CaseRun, T] | tuple[Failure, None]


def looked_at(
    task: Task, runs: Generator[CaseRun | Failure], look: Callable[[CaseRun], T]
) -> Generator[Looked[T]]:
    """Yields each run with what `look` says of it, or the failure; in their order, whatever the
    number of threads. `look` changes nothing. Once a run's successor is asked for, its files are
    gone; what was begun ahead is dropped where nobody asks for it."""
    waiting = deque[tuple[CaseRun | Failure, Future[T] | None]]()
    most, pool = 2 * _threads(), _pool()
    with closing(runs):
        try:
            for run in runs:
                waiting.append((run, _begun(pool, task, run, look)))
                while waiting and (len(waiting) > most or _is_done(waiting[0][1])):
                    yield from _next(waiting)
            while waiting:
                yield from _next(waiting)
        finally:
            for run, future in waiting:
                if future and not future.cancel():
                    future.exception()
                if isinstance(run, CaseRun):
                    run.remove()


def _next(waiting: deque[tuple[CaseRun | Failure, Future[T] | None]]) -> Iterator[Looked[T]]:
    run, future = waiting[0]
    if not isinstance(run, CaseRun):
        waiting.popleft()
        yield run, None
        return
    assert future is not None, "every run was checked"
    found = future.result()
    try:
        yield run, found
    finally:
        waiting.popleft()
        run.remove()


def _begun(
    pool: ThreadPoolExecutor, task: Task, run: CaseRun | Failure, look: Callable[[CaseRun], T]
) -> Future[T] | None:
    if not isinstance(run, CaseRun):
        return None
    if task.least_bytes(run.oracle_case.case) >= SMALL_BYTES:
        return pool.submit(look, run)
    done = Future[T]()
    try:
        done.set_result(look(run))
    except Exception as error:
        done.set_exception(error)
    return done


def _is_done(future: Future[T] | None) -> bool:
    return future is None or future.done()


def _threads() -> int:
    return min(MOST_THREADS, cores())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "astra-look")
