"""Seconds of leases: each counts once, as held or as waited, and NVML is read at both ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest

from astra_chat.tools.evaluation import GpuUse
from astra_chat.tools.system.gpu_use import GpuClock, NvmlCounters, mean_percent


@dataclass
class Gpu:
    """A GPU whose counters are set, and its time."""

    now_s: float = 0.0
    energy: int | None = 1000
    share: float | None = 0.5
    asked_us: list[int] = field(default_factory=list)

    def energy_mj(self) -> int | None:
        return self.energy

    def busy(self, since_us: int) -> float | None:
        self.asked_us.append(since_us)
        return self.share

    def clock(self) -> GpuClock:
        return GpuClock(self, now=lambda: self.now_s, epoch_s=lambda: 1e9 + self.now_s)

    @contextmanager
    def lease(self, wait_s: float = 0.0) -> Iterator[None]:
        self.now_s += wait_s
        yield


def test_the_wait_and_the_lease_are_counted_apart() -> None:
    gpu = Gpu()
    clock = gpu.clock()
    with clock.around(gpu.lease(wait_s=3.0)):
        gpu.now_s += 2.0
        gpu.energy = 1700
    gpu.now_s += 50.0
    assert clock.taken() == (3.0, GpuUse(held_s=2.0, energy_j=0.7, busy=0.5))
    assert gpu.asked_us == [int((1e9 + 3.0) * 1e6)]
    assert clock.taken() == (0.0, GpuUse(held_s=0.0))


def test_leases_of_two_threads_count_once() -> None:
    """The second waits while the first holds: no second is both."""
    gpu = Gpu()
    clock = gpu.clock()
    with clock.around(gpu.lease()):
        gpu.now_s += 1.0
        with clock.around(gpu.lease(wait_s=4.0)):
            gpu.now_s += 1.0
    assert clock.taken() == (0.0, GpuUse(held_s=6.0, energy_j=0.0, busy=0.5))


def test_what_is_held_on_is_counted_up_to_now() -> None:
    gpu = Gpu(energy=None, share=None)
    clock = gpu.clock()
    with clock.around(gpu.lease()):
        gpu.now_s += 1.5
        assert clock.taken()[1] == GpuUse(held_s=1.5)
        gpu.now_s += 0.5
    assert clock.taken()[1] == GpuUse(held_s=0.5)


def test_a_lease_that_is_not_had_is_waited_for_only() -> None:
    gpu = Gpu()
    clock = gpu.clock()

    @contextmanager
    def refused() -> Iterator[None]:
        gpu.now_s += 2.0
        raise KeyError
        yield

    with pytest.raises(KeyError), clock.around(refused()):
        pytest.fail("it was not had")
    assert clock.taken() == (2.0, GpuUse(held_s=0.0))


def test_threads() -> None:
    """However they overlap, no second is lost: what is held fits between first and last."""
    clock = GpuClock(NvmlCounters(99))
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for _ in range(50):
            with clock.around(nullcontext()):
                pass

    began = clock.now()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waited_s, use = clock.taken()
    assert 0 < use.held_s + waited_s <= clock.now() - began
    assert (use.energy_j, use.busy) == (None, None)


def test_utilization_is_the_mean_of_samples() -> None:
    assert mean_percent([100, 0, 50]) == 0.5
    assert mean_percent([]) is None and mean_percent([4_000_000_000]) is None


@pytest.mark.gpu
def test_nvml_counts_energy() -> None:
    assert (NvmlCounters(0).energy_mj() or 0) > 0
