"""Claims: which worker judges a job, so that no other does.

A claim is a file claim-0.json, claim-1.json, ... that is made exclusively; the highest number
counts. A worker that takes over makes the next number, so of two only one can. It may take over

- at once, where the worker was a process of this machine and is gone;
- elsewhere, where it has itself watched the claim for STALE_S seconds without a sign of life. The
  worker touches its claim every BEAT_S seconds; clocks of two machines are never compared.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from astra_chat.mailbox.files import Unreadable, read_text, write_new
from astra_chat.tools.types import Value

BEAT_S = 10.0
"""Seconds between two signs of life of a claim."""
STALE_S = 180.0
"""Seconds for which a claim without a sign of life is respected."""
CLAIM = re.compile(r"claim-([0-9]{1,6})\.json")


class Holder(Value):
    """The worker that made a claim."""

    host: str
    machine: str
    """Boot and process namespace: process numbers mean the same within it. Empty: not known."""
    pid: int
    started: str
    """When the process began, by the kernel's count, so that a process number used again is another
    process."""

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


def this_worker() -> Holder:
    """Returns the holder that this process is."""
    return Holder(
        host=socket.gethostname(),
        machine=_machine(),
        pid=os.getpid(),
        started=_started(os.getpid()),
    )


@dataclass
class JobClaim:
    """A job that this worker judges, until it is released. Use it in a `with`."""

    path: Path
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> JobClaim:
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let others have it."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self.path.unlink()

    @property
    def lost(self) -> bool:
        """Whether another worker took over: what this one found must not be written."""
        return _last(self.path.parent) != self.path

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S):
            with contextlib.suppress(OSError):
                os.utime(self.path)


@dataclass
class Claims:
    """The claims of one worker, and what it saw of others'."""

    me: Holder = field(default_factory=this_worker)
    clock: Callable[[], float] = time.monotonic
    _seen: dict[Path, tuple[int, float]] = field(default_factory=dict)
    """Other workers' claims by path: the last sign of life (modification time, ns), and when it was
    first seen here (by `clock`, s)."""

    def take(self, folder: Path) -> JobClaim | Holder:
        """Claim a job, or who has it. Raises MissingDependency where no file can be written."""
        last = _last(folder)
        if last is not None and (holder := self._alive(last)) is not None:
            return holder
        number = 0 if last is None else _number(last) + 1
        path = folder / f"claim-{number}.json"
        if write_new(path, self.me.model_dump_json() + "\n"):
            return JobClaim(path)
        return _holder(path)

    def _alive(self, path: Path) -> Holder | None:
        """Who holds a claim; None where it may be taken over."""
        holder = _holder(path)
        if holder.machine and holder.machine == self.me.machine:
            return holder if _started(holder.pid) == holder.started else None
        try:
            sign = path.stat().st_mtime_ns
        except OSError:  # it was released
            return None
        now = self.clock()
        before = self._seen.get(path)
        if before is None or before[0] != sign:
            self._seen[path] = (sign, now)
            return holder
        return holder if now - before[1] < STALE_S else None


def _number(path: Path) -> int:
    found = CLAIM.fullmatch(path.name)
    return int(found[1]) if found else -1


def _last(folder: Path) -> Path | None:
    """The claim that counts."""
    return max((p for p in folder.iterdir() if _number(p) >= 0), key=_number, default=None)


def _holder(path: Path) -> Holder:
    """Returns who made a claim; of one that cannot be read, an unknown worker, whose claim may be
    taken over after STALE_S."""
    try:
        return Holder.model_validate_json(read_text(path) or "")
    except (Unreadable, ValidationError):
        return Holder(host="unknown", machine="", pid=0, started="")


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
