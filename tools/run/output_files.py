"""Checks the files that a process with a candidate in it wrote, before the judge reads them.

The candidate can do there what the process can: put a link, a pipe or a sparse file in the place of
a result, so that the judge would read another file, wait forever or run out of memory.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.run.protocol import FetchedSet
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.folder import Arg
from astra_chat.tools.types import Case


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
