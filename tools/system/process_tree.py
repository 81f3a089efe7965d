"""A process and all below it, read from /proc: what they hold and use, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and all below it; 0 where they are gone."""
    return sum(map(_resident_pages, family(pid))) * os.sysconf("SC_PAGE_SIZE")


def processor_s(pid: int) -> float:
    """Processor time of a process, all below it, and those of them that ended."""
    return sum(map(_ticks, family(pid))) / os.sysconf("SC_CLK_TCK")


def kill_family(pid: int) -> None:
    """A process and all below it, whatever their process groups: ninja gives each command one of
    its own. They are stopped first, so that none starts another in the meantime."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in family(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, number)


def family(pid: int) -> list[int]:
    """Returns this process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(below for child in children for below in family(int(child)))]


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime of proc(5); they follow the name, which may hold spaces."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))
