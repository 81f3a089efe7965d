"""How long a judge held its GPU's lease and waited for it, and what NVML says about that time.

NVML is read when a lease begins and when it ends, never in between: reading disturbs measurements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from astra_chat.tools.evaluation import GpuUse
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.types import Device


class Counters(Protocol):
    """What a GPU counts about itself; None where it does not say."""

    def energy_mj(self) -> int | None:
        """Millijoules since the driver was loaded."""
        ...

    def busy(self, since_us: int) -> float | None:
        """Share of the time since then, in microseconds of the epoch, in which a kernel ran."""
        ...


@dataclass
class NvmlCounters:
    """NVML's counters, of the GPU with this index in CUDA's order."""

    index: int

    @cached_property
    def _gpu(self) -> Any:
        """NVML's handle, found once: looking through all GPUs takes milliseconds, and others wait
        meanwhile."""
        return gpu_handles()[self.index]

    def energy_mj(self) -> int | None:
        import pynvml

        try:
            return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._gpu))
        except (pynvml.NVMLError, IndexError):
            return None

    def busy(self, since_us: int) -> float | None:
        import pynvml

        try:
            kind = pynvml.NVML_GPU_UTILIZATION_SAMPLES
            _, samples = pynvml.nvmlDeviceGetSamples(self._gpu, kind, since_us)
        except (pynvml.NVMLError, IndexError):
            return None
        return mean_percent([int(one.sampleValue.uiVal) for one in samples])


def mean_percent(samples: Sequence[int]) -> float | None:
    """Mean of percentages as a share; None of nothing, or of what is no percentage."""
    if not samples or not all(0 <= one <= 100 for one in samples):
        return None
    return sum(samples) / len(samples) / 100


def clock_of(device: Device) -> GpuClock | None:
    """A clock of the device's leases; None without a real GPU."""
    return GpuClock(NvmlCounters(device.index)) if device.kind == "cuda" else None


@dataclass
class _Sum:
    waited_s: float = 0.0
    held_s: float = 0.0
    energy_j: float | None = None
    busy_s: float | None = None
    """Busy share times seconds, of the seconds below."""
    watched_s: float = 0.0


@dataclass
class GpuClock:
    """Seconds of a judge's leases, whose threads may hold several at a time: each second counts
    once, as held if one is held, as waited if not."""

    counters: Counters
    now: Callable[[], float] = time.monotonic
    epoch_s: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: int = 0
    _holding: int = 0
    _since_s: float = 0.0
    _began: tuple[float, int | None, int] = (0.0, None, 0)
    """Start of what is held now: `now` in seconds, NVML's energy in mJ, and microseconds of the
    epoch."""
    _sum: _Sum = field(default_factory=_Sum)

    @contextmanager
    def around(self, lease: AbstractContextManager[None]) -> Iterator[None]:
        """Count the wait for a lease and the time in it."""
        with ExitStack() as held:
            with self._counted(waiting=1):
                held.enter_context(lease)
            with self._counted(holding=1):
                yield

    def taken(self) -> tuple[float, GpuUse]:
        """Seconds waited, and what was held, since this was asked last."""
        with self._lock:
            self._count()
            found, self._sum = self._sum, _Sum()
        busy = found.busy_s / found.watched_s if found.busy_s is not None else None
        use = GpuUse(
            held_s=round(found.held_s, 4),
            energy_j=found.energy_j,
            busy=None if busy is None else round(min(1.0, busy), 4),
        )
        return round(found.waited_s, 4), use

    @contextmanager
    def _counted(self, waiting: int = 0, holding: int = 0) -> Iterator[None]:
        self._change(waiting, holding)
        try:
            yield
        finally:
            self._change(-waiting, -holding)

    def _change(self, waiting: int, holding: int) -> None:
        with self._lock:
            self._count()
            before, after = self._holding, self._holding + holding
            self._waiting, self._holding = self._waiting + waiting, after
            if after and not before:
                energy_mj = self.counters.energy_mj()
                self._began = self.now(), energy_mj, int(self.epoch_s() * 1e6)
            elif before and not after:
                self._read(*self._began)

    def _count(self) -> None:
        """Counts what passed since the last change."""
        now = self.now()
        if self._holding:
            self._sum.held_s += now - self._since_s
        elif self._waiting:
            self._sum.waited_s += now - self._since_s
        self._since_s = now

    def _read(self, began_s: float, before_mj: int | None, began_us: int) -> None:
        after_mj, busy = self.counters.energy_mj(), self.counters.busy(began_us)
        if before_mj is not None and after_mj is not None and after_mj >= before_mj:
            used_j = (after_mj - before_mj) / 1e3
            self._sum.energy_j = round((self._sum.energy_j or 0.0) + used_j, 3)
        seconds = self.now() - began_s
        if busy is not None and seconds > 0:
            self._sum.busy_s = (self._sum.busy_s or 0.0) + busy * seconds
            self._sum.watched_s += seconds
