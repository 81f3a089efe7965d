"""Cooperative launches: lanes that wait for other thread blocks (grid.sync, spin loops).

They stop before the instruction that polls what another block stores, and continue when no other
lane can run; a loop of such polls thus takes one iteration. Until then, other lanes of the same
warp do not pass the point where the waiting ones will return, as at mbarriers (mbarrier_waits.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from astra_vgpu.lowering.control_flow import GridPoll
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine import proxy_fences
from astra_vgpu.numpy_engine.address_spaces import lane_number
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.types import WARP_LANES

PATIENCE = 32
"""Failed polls of all waiting lanes before lanes continue without the others of their warp."""
MAX_FAILED_POLLS = 1000
"""Failed polls of all waiting lanes before they count as waiting forever."""
HANG = (
    "deadlock between blocks: every remaining thread waits for other blocks here; not all threads "
    "reached the grid's sync, or the value that they wait for is never stored"
)
ARRIVED = np.uint32(1 << 31)
"""The bit of the grid's second word that turns with each sync (cooperative_groups)."""


class GridWaits:
    """The lanes of a batch that wait for other blocks."""

    def __init__(self, lanes: int) -> None:
        self._waiting: dict[int, tuple[GridPoll, Mask]] = {}
        """Waiting lanes and their poll, by the basic block where they continue."""
        self._back = np.full(lanes // WARP_LANES, np.iinfo(np.int64).max, np.int64)
        self._before: dict[int, Mask] = {}
        """The waiting lanes when lanes continued last."""
        self._failed_polls = 0
        self._turned = np.uint32(0)

    @property
    def empty(self) -> bool:
        return not self._waiting

    def arrive(self, f: Frame, pause: GridPoll, active: Active) -> None:
        known = self._waiting.get(pause.target)
        mask = active.mask if known is None else known[1] | active.mask
        self._waiting[pause.target] = pause, mask
        warps = np.flatnonzero(active.mask.reshape(-1, WARP_LANES).any(axis=1))
        np.minimum.at(self._back, warps, pause.target)

    def held(self, block: int) -> Mask | None:
        """Which warps, [warps], may not enter this basic block yet; None for none of them."""
        if self.empty or self._failed_polls >= PATIENCE:
            return None
        held = self._back <= block
        return held if held.any() else None

    def resume(self, f: Frame, timed: Callable[[int], bool]) -> list[tuple[int, Mask]]:
        """No other lane can: (basic block, lanes that continue there). timed: whether a block is
        part of a loop that ends by a clock. Raises Fault for lanes that wait too long."""
        now = {target: mask for target, (_, mask) in self._waiting.items()}
        same = now.keys() == self._before.keys() and all(
            np.array_equal(now[target], self._before[target]) for target in now
        )
        self._failed_polls = self._failed_polls + 1 if same else 0
        if self._failed_polls > MAX_FAILED_POLLS and not any(map(timed, now)):
            raise self._in_failed_polls(f)
        self._before = now
        self._waiting = {}
        self._back[:] = np.iinfo(np.int64).max
        self._see_sync(f)
        return list(now.items())

    def _see_sync(self, f: Frame) -> None:
        """What all blocks did before they met comes before what they do after."""
        place = f.launch.meeting_place
        buffer = f.memory.find(place) if place else None
        if buffer is None or (f.block_races is None and f.proxy_fences is None):
            return
        word = buffer.data[place - buffer.address :][4:8].view(np.uint32)[0] & ARRIVED
        if word != self._turned:
            if f.block_races is not None:
                f.block_races.restart()
            proxy_fences.learned(f, f.live, of_blocks=True)
            self._turned = word

    def _in_failed_polls(self, f: Frame) -> Exception:
        first = min(self._waiting.values(), key=lambda w: lane_number(_all(w[1]), 0))
        lane = lane_number(_all(first[1]), 0)
        return f.fault(first[0].instruction, "timeout", HANG, machine.LAUNCH_TIMEOUT, lane)


def _all(mask: Mask) -> Active:
    return Active(mask, int(np.count_nonzero(mask)))
