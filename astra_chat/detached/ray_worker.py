"""A worker on Ray: an actor that has one GPU to itself and judges jobs in processes of their own.

A job goes in under a lease, a name that whoever asks has made up for this one attempt. Whoever asks
looks again and again; that is the sign of life. A lease without one for STALE_S seconds is ended,
its process killed: nothing that anybody left behind keeps a GPU.

Several jobs at a time: while one holds the GPU's lease (tools/system/gpu_lock.py), the others are
guarded and built, their plans recorded and their oracles computed, all of it outside that lease.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple

from astra_chat.detached.answering import framed

CORES_A_JOB = 4
FEWEST_JOBS, MOST_JOBS = 2, 4
"""Fewest and most jobs of one GPU at a time. With two the lease was held for 60 % of the time on a
machine of 16 cores a GPU: an evaluation holds it for a third of its own time."""
FEW_THREADS = {"OMP_NUM_THREADS": str(CORES_A_JOB)}
"""Environment of each process of a job: by itself torch takes all cores, for each of the jobs
beside it too."""
STALE_S = 30.0
IDLE_S = 300.0
"""Seconds without a job after which a worker gives its GPU back to Ray."""
LOOK_S = 0.5
END_S = 3.0
TOLD_BYTES = 20_000


class Look(NamedTuple):
    """What became of a lease."""

    state: Literal["running", "done", "failed", "unknown"]
    """unknown: there is no such lease, it has ended."""
    results: bytes = b""
    told: str = ""
    """The end of what a failed job's process said; empty otherwise."""


@dataclass
class _Job:
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    seen_s: float

    @property
    def path(self) -> Path:
        return Path(self.folder.name)

    def end(self) -> None:
        """Close the process's stdin, with which it ends; else kill it with all that it started."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.folder.cleanup()


def jobs_at_once(cores: float, gpus: int) -> int:
    """Returns how many jobs each GPU of a machine takes at a time: as many as there are cores
    for."""
    return int(min(MOST_JOBS, max(FEWEST_JOBS, cores // (gpus * CORES_A_JOB))))


@dataclass
class GpuWorker:
    """All methods return at once. `device`: "cuda", the GPU that Ray gave it, or "virtual"."""

    device: str
    jobs_at_once: int = FEWEST_JOBS
    stale_s: float = STALE_S
    idle_s: float | None = IDLE_S
    """Seconds without a job after which the worker ends; None: it stays."""
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _used_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def free(self) -> int:
        """How many jobs it would take now."""
        with self._lock:
            running = sum(job.process.poll() is None for job in self._jobs.values())
            return self.jobs_at_once - running

    def start(self, lease: str, packed: bytes, trust: bool, least_free: int = 1) -> bool:
        """Judge this file of jobs under a lease, asked for once; False where less is free: another
        was quicker, and some other GPU may be idle."""
        if self.free() < max(1, least_free):
            return False
        folder = tempfile.TemporaryDirectory(prefix="astra-lease-")
        words = ["judge", "answer", "--device", self.device, *(["--trust"] if trust else [])]
        path = Path(folder.name)
        with (path / "results.zip").open("wb") as out, (path / "told").open("wb") as told:
            process = subprocess.Popen(
                [sys.executable, "-m", "astra_chat", *words],
                env={**os.environ, **FEW_THREADS},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=told,
                bufsize=0,
                start_new_session=True,
            )
        assert process.stdin is not None
        threading.Thread(target=_give, args=(process.stdin, framed(packed)), daemon=True).start()
        with self._lock:
            self._jobs[lease] = _Job(process, folder, time.monotonic())
        return True

    def look(self, lease: str) -> Look:
        """What became of a lease so far, and the sign that somebody still waits for it."""
        with self._lock:
            job = self._jobs.get(lease)
            if job is None:
                return Look("unknown")
            job.seen_s = self._used_s = time.monotonic()
        code = job.process.poll()
        if code is None:
            return Look("running")
        if code == 0:
            return Look("done", (job.path / "results.zip").read_bytes())
        told = (job.path / "told").read_bytes()[-TOLD_BYTES:].decode(errors="replace")
        return Look("failed", told=told or f"its process ended with {code}")

    def end(self, lease: str) -> None:
        """Give a lease back; what runs under it is killed."""
        with self._lock:
            job = self._jobs.pop(lease, None)
            self._used_s = time.monotonic()
        if job is not None:
            job.end()

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            with self._lock:
                stale = [one for one, job in self._jobs.items() if now - job.seen_s > self.stale_s]
            for lease in stale:
                self.end(lease)
            with self._lock:
                idle = not self._jobs and now - self._used_s
            if self.idle_s is not None and idle > self.idle_s:
                os._exit(0)  # the actor's process; its next job gets a new one


def _give(stdin: IO[bytes], packed: bytes) -> None:
    left = memoryview(packed)
    with suppress(OSError, ValueError):  # it ended: its exit code says why
        while left:
            left = left[stdin.write(left) :]
