"""Copies to shared memory that are in flight: cp.async and bulk copies.

A read of bytes that a copy is still writing is a fault: on a GPU either value may be there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.bulk_copies import COPY_IN_FLIGHT
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import Site, lane_number, select
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.numpy_engine.loads import put_arena

WORD = 4
"""Bytes of the smallest copy."""
BULK = 1 << 16
"""What a bulk copy adds to the count of copies in flight to a word."""
COPY_NOT_AWAITED = "read of bytes that a cp.async is still writing: its group was not waited for"


@dataclass
class Copy:
    """One cp.async of some lanes that has not arrived."""

    site: Site
    target: Array
    """Shared address of each lane: [blocks, threads]."""
    values: Array
    lanes: Mask
    group: NDArray[np.int64]
    """Number of each lane's group: how many it had committed before."""


@dataclass
class CopyQueue:
    """The copies of a batch that are in flight."""

    committed: NDArray[np.int64]
    """Groups that each lane has closed."""
    flying: NDArray[np.int32]
    """Copies in flight to each word of the batch's shared memory."""
    copies: list[Copy] = field(default_factory=list)
    bulk: int = 0
    """Bulk copies in flight."""

    def send(self, f: Frame, copy: Copy) -> None:
        self.copies.append(copy)
        self._fly(f, copy, copy.lanes, 1)

    def _fly(self, f: Frame, copy: Copy, mask: Mask, step: int) -> None:
        lanes = Active(mask, int(np.count_nonzero(mask)))
        offsets = select(copy.target, lanes, f.shape).astype(np.int64)
        inside = offsets + copy.site.size <= f.shared.limit
        first = (select(f.shared.origin, lanes, f.shape) + offsets)[inside] // WORD
        for word in range(copy.site.size // WORD):
            np.add.at(self.flying, first + word, step)

    def check_arrived(self, f: Frame, site: Site, index: NDArray[np.int64], active: Active) -> None:
        """index: items of the site's size that each active lane reads. Raises Fault."""
        if not self.copies and not self.bulk:
            return
        first, last = index * site.size // WORD, ((index + 1) * site.size - 1) // WORD
        flying = self.flying[first]
        for word in range(1, max(site.size // WORD, 1)):
            flying = np.maximum(flying, self.flying[np.minimum(first + word, last)])
        if flying.any():
            lane = int(np.argmax(flying > 0))
            origin = int(select(f.shared.origin, active, f.shape)[lane])
            offset = int(index[lane]) * site.size - origin
            raise _unwaited(f, site, lane_number(active, lane), offset, int(flying[lane]))

    def check_span(self, f: Frame, site: Site, words: slice, lane: int, offset: int) -> None:
        """A copy reads these words of the batch's shared memory. Raises Fault."""
        if self.flying[words].any():
            raise _unwaited(f, site, lane, offset, int(self.flying[words].max()))

    def arrive(self, f: Frame, active: Active, most_pending: int) -> None:
        """Completes all groups of the active lanes but the last `most_pending`."""
        done = self.committed - most_pending
        self.deliver(f, self.copies, lambda copy: active.mask & (copy.group < done))

    def deliver(self, f: Frame, copies: list[Copy], lanes_of: Callable[[Copy], Mask]) -> None:
        """Lets copies arrive for some of their lanes."""
        for copy in copies:
            mask = copy.lanes & lanes_of(copy)
            lanes = Active(mask, int(np.count_nonzero(mask)))
            if lanes.count:
                self._fly(f, copy, mask, -1)
                values = select(copy.values, lanes, f.shape)
                put_arena(f, copy.site, "shared", copy.target, values, lanes)
                copy.lanes = copy.lanes & ~mask
        self.copies = [copy for copy in self.copies if copy.lanes.any()]


def _unwaited(f: Frame, site: Site, lane: int, offset: int, flying: int) -> Exception:
    message = f"{COPY_IN_FLIGHT if flying >= BULK else COPY_NOT_AWAITED} (shared offset {offset})"
    return f.fault(site.instruction, "missing_wait", message, machine.LAUNCH_FAILURE, lane)


def queue_of(f: Frame) -> CopyQueue:
    if f.copies is None:
        f.copies = CopyQueue(
            np.zeros(f.shape, np.int64), np.zeros(f.shared.data.size // WORD + 1, np.int32)
        )
    return f.copies
