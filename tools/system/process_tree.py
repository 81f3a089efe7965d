"""A process and all below it, read from /proc: what they hold and use, and their end."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


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
    children = _read(f"/proc/{pid}/task/{pid}/children").split()
    return [pid, *(below for child in children for below in family(int(child)))]


def _resident_pages(pid: int) -> int:
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) if len(fields) > 1 else 0


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime of proc(5); they follow the name, which may hold spaces."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[11:15]))


def _read(path: str) -> bytes:
    """Returns what a file of /proc holds; nothing where the process is gone. Every wait for a child
    reads some ten times a second: Path would take most of that time."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 2**16)
    except OSError:
        return b""
    finally:
        os.close(file)
