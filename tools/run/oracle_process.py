"""Oracle processes: each makes inputs and results of the cases that it is asked for, one by one."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import RLock, Thread
from typing import Any, NamedTuple

from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.forked import server_of
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import Cancelled, StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import AstraError, BadInput

MODULE = "astra_chat.tools.runners.oracle"
START_S = 600.0
HALF = "half of this machine's memory"
MOST, LEAST_MOST = 8, 2
"""Processes that share many cases at most: on a machine of many cores, or of few with little
memory."""
PROCESS_BYTES = 8 * 2**30
"""Memory of the machine for each of them: it may hold the arrays of a large case."""
SHARED_CASES, CASES_EACH = 16, 8
"""Cases from which on they are shared out, and how many each process then makes at least."""

LARGE_BYTES = 2**27
"""Larger cases are all made by the first process, so that it alone may need much memory."""

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

Item = Mapping[str, Any]
"""What the process is to do with a case."""
Report = dict[str, Any]
Placed = tuple[int, Report]
"""An item's place among those that were asked for, and what the process reports of it."""


class OracleFolders(NamedTuple):
    """What an oracle process reaches beside the task. reference.py may be anybody's, and could put
    a link where it may write: the judge therefore writes only where the process just reads."""

    asked: Path
    """Folder of requests and of kernels' outputs, which the judge writes."""
    given: Path
    """Folder of inputs that the judge brings."""
    expected: Path
    """Folder of results, which the process writes."""
    drawn: Path
    """Folder of inputs that the process draws and writes."""


class OracleProcess:
    """A process that serves one judge. It starts when it is first needed, or before."""

    def __init__(self, task: Task, folders: OracleFolders) -> None:
        self._task, self._folders, self._numbers = task, folders, itertools.count()
        self._worker: Worker | None = None
        self._asked, self._line = folders.asked, -1
        self._lock, self._starting = RLock(), Background(self._start)

    def prepare(self) -> None:
        """Start it, which takes a second or two, while others work."""
        self._starting.start()

    def _start(self) -> None:
        with self._lock:
            if self._worker is not None:
                return
            folders = self._folders
            self._asked = folders.asked / f"asked-{next(self._numbers)}-{id(self)}"
            os.mkfifo(self._asked)
            # Both ends: opening does not block; the process sees the end when we close.
            self._line = os.open(self._asked, os.O_RDWR)
            sandbox = SandboxPolicy(
                read=(self._task.folder.resolve(), folders.asked, folders.given),
                write=(folders.expected, folders.drawn),
            )
            self._worker = Worker(MODULE, sandbox=sandbox, server=server_of(MODULE))
            request = {"task": str(self._task.folder.resolve()), "asked": str(self._asked)}
            self._worker.ask(request, START_S, Stop())

    def served(self, items: Sequence[Item], stop: Stop, limit_s: float) -> Iterator[Report]:
        """What it reports of each. Raises BadInput where reference.py takes too long or too much
        memory, and AstraError where the process ends."""
        self._start()
        assert self._worker is not None
        self._worker.allow(limit_s, stop)
        asked = self._folders.asked / f"request-{next(self._numbers)}-{id(self)}.json"
        with os.fdopen(os.open(asked, NEW_FILE, 0o600), "w") as request:
            request.write(json.dumps(items))
        os.write(self._line, f"{asked}\n".encode())
        try:
            for report in self._worker.reports():
                if report["kind"] == "served":
                    return
                yield report
        except (StepTimeout, StepMemory) as limit:
            took = f"{limit_s:.0f} s" if isinstance(limit, StepTimeout) else HALF
            raise BadInput(f"{self._task.reference_place} took more than {took}") from None
        finally:
            asked.unlink(missing_ok=True)
        end = self._worker.finish()
        raise AstraError(
            f"the oracle process of {self._task.name} ended early "
            f"({signal_name(end.returncode)}): {end.output.strip()[-600:]}"
        )

    def end(self) -> None:
        """Stop it; the next request starts another."""
        self._starting.wait()
        with self._lock:
            if self._worker is not None:
                self._worker.__exit__()
                os.close(self._line)
                self._asked.unlink()
                self._worker = None


def most_processes() -> int:
    """Processes that this machine's cores and memory allow."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MOST, cores(), max(LEAST_MOST, memory // PROCESS_BYTES))


def shared_out(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Which of these items, by their places, each process makes, of `most` at most: few are made by
    one, and the largest are shared out first. `sizes`: of what each case reads and writes, in
    bytes."""
    count = min(most, len(sizes) // CASES_EACH) if len(sizes) >= SHARED_CASES else 1
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        least = 0 if sizes[place] > LARGE_BYTES else loads.index(min(loads))
        shares[least].append(place)
        loads[least] += sizes[place]
    return [sorted(share) for share in shares]


def served_by(
    processes: Sequence[OracleProcess],
    shares: Sequence[Sequence[int]],
    items: Sequence[Item],
    stop: Stop,
    limit_s: float,
) -> Iterator[Placed]:
    """Yields what the processes report of their shares, as it comes."""
    if len(shares) == 1:
        for report in processes[0].served(items, stop, limit_s):
            yield report["index"], report
        return
    found, ended = SimpleQueue[Placed | Exception | None](), Stop(beside=stop)
    threads = [
        Thread(target=_serve, args=(process, items, share, ended, limit_s, found), daemon=True)
        for process, share in zip(processes, shares, strict=False)
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _until_ended(found, len(threads))
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _serve(
    process: OracleProcess,
    items: Sequence[Item],
    share: Sequence[int],
    stop: Stop,
    limit_s: float,
    found: SimpleQueue[Placed | Exception | None],
) -> None:
    """Puts what one process reports of its share, then None, or what went wrong."""
    try:
        for report in process.served([items[place] for place in share], stop, limit_s):
            found.put((share[report["index"]], report))
        found.put(None)
    except (AstraError, Cancelled, OSError) as error:
        found.put(error)


def _until_ended(found: SimpleQueue[Placed | Exception | None], running: int) -> Iterator[Placed]:
    while running:
        one = found.get()
        if isinstance(one, Exception):
            raise one
        if one is None:
            running -= 1
        else:
            yield one
