"""CUDA contexts that are made ahead of need, in runner processes that wait for their request.

A context takes a quarter of a second, in which every other process of the GPU may wait. So they are
made one after another, with the GPU's lease as for a check: never while somebody times. A process
has its context for one request only, and no candidate is loaded before that comes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import Cancelled, StepTimeout, Stop, Worker
from astra_vgpu.ground.errors import AstraError

logger = logging.getLogger(__name__)

OPEN_S = 60.0
"""A context that takes longer is given up."""
LEAST_FREE_BYTES = 16 * 2**30
"""Memory of the GPU below which none are made early: contexts that wait take half a gibibyte each,
and what is timed next may need that."""


class EarlyContexts:
    """Opens one GPU in waiting processes, in a thread; whoever needs a process first, has it."""

    def __init__(
        self,
        index: int,
        leased: Callable[[Stop], AbstractContextManager[None]],
        room: Callable[[int], str] | None = None,
    ) -> None:
        """`leased` holds the GPU as a check does. `room` says why a GPU has no room for contexts
        that wait; "" where it has."""
        self._index, self._leased, self._room = index, leased, room or lacking_room
        self._changed, self._stop = threading.Condition(), Stop()
        self._waiting = deque[Worker]()
        self._opening: Worker | None = None
        self._lost = list[Worker]()
        """Those that did not open it, and are of no use."""
        self._thread: threading.Thread | None = None
        self._given_up = False

    def open(self, worker: Worker) -> None:
        """Open the GPU in a process, after those that were given before."""
        with self._changed:
            if self._given_up:
                return
            self._waiting.append(worker)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def claim(self, worker: Worker) -> bool:
        """Leave a process to the caller: it will not be opened any more, and is not being opened.
        Returns whether it can be used."""
        with self._changed:
            if worker in self._waiting:
                self._waiting.remove(worker)
            self._changed.wait_for(lambda: self._opening is not worker)
            if worker in self._lost:
                self._lost.remove(worker)
                return False
            return True

    def _run(self) -> None:
        try:
            with self._leased(self._stop):
                if why := self._room(self._index):
                    self._give_up(f"{why}: contexts are created on demand, which is slower")
                while worker := self._next():
                    self._open(worker)
        except (Cancelled, AstraError, OSError) as error:
            logger.debug("GPU contexts are not created in advance: %s", error)
            with self._changed:
                self._thread = None

    def _next(self) -> Worker | None:
        with self._changed:
            self._opening = self._waiting.popleft() if self._waiting else None
            if self._opening is None:
                self._thread = None
            return self._opening

    def _open(self, worker: Worker) -> None:
        why = ""
        try:
            why = worker.open_gpu(self._index, OPEN_S, self._stop)
        except StepTimeout:
            why = f"it did not answer in {OPEN_S:.0f} s and was killed"
        except (AstraError, StepMemory, Cancelled, OSError) as error:
            why = str(error)
        if why:
            self._give_up(f"process {worker.pid} could not open GPU {self._index} early: {why}")
        with self._changed:
            if why:
                self._lost.append(worker)
            self._opening = None
            self._changed.notify_all()

    def _give_up(self, why: str) -> None:
        logger.warning(why)
        with self._changed:
            self._given_up = True
            self._waiting.clear()


def lacking_room(index: int) -> str:
    """Why a GPU has no room for contexts that wait; "" where it has."""
    import pynvml

    try:
        gpu = gpu_handles()[index]
        free = int(pynvml.nvmlDeviceGetMemoryInfo(gpu).free)
        if free >= LEAST_FREE_BYTES:
            return ""
        others = len(pynvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    except (pynvml.NVMLError, IndexError) as error:
        return f"NVML does not report how much memory GPU {index} has ({error})"
    return f"GPU {index} has {free / 2**30:.1f} GiB free with {others} other processes on it"
