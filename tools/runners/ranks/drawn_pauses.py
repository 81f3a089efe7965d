"""Stops of a rank on a virtual GPU, before drawn accesses of memory that ranks share.

What ranks see of each other follows from the order of their accesses of that memory. A rank that
stops before one of them until its peers can do no more without it shows what a kernel relies on
that no signal ensures, and lasts as long as it has to on a busy machine, too (boards.py). A real
GPU offers no such stop.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.runners.ranks.boards import (
    DONE,
    LOOK_S,
    MET,
    REPEATED,
    STEPS,
    STOPPED,
    Boards,
)

SHARE, MOST = 0.5, 8.0
"""Share of a call's accesses before which a rank stops; how many these are at most on average."""
FIRST_GUESS = 12
"""Accesses of a call before one was counted."""
REPEATS = 3
"""Loads that a peer repeats, all others doing nothing new, before it counts as waiting."""
HANG_REPEATS = 300
"""Loads that each rank repeats, none doing anything new, before their wait counts as endless."""
QUIET_S = 30.0
"""How long peers may neither wait nor do anything new, such as compare results, before a stop ends
without them."""


class WaitsForever(RuntimeError):
    """All ranks that are not done wait for signals that none of them sends."""


class Stops:
    """Where one rank stops."""

    def __init__(self, draws: Iterator[Random | None], boards: Boards) -> None:
        """`draws`: for each call, what draws its places, or None where it has none."""
        self._draws, self._boards = draws, boards
        self._counted = dict[str, int]()
        """Accesses of a call, by what is called."""
        self._last = FIRST_GUESS
        self.places = frozenset[int]()
        """Accesses of this call before which the rank stops."""
        self._number = self._repeats = 0
        self._looked = boards.now()
        self._loaded = set[tuple[int, ...]]()
        """Loads since the last store."""

    def begin(self, called: str) -> None:
        """A call begins; `called` names its plan."""
        draw, count = next(self._draws, None), self._counted.get(called, self._last)
        share = min(SHARE, MOST / count)
        self.places = frozenset(at for at in range(count) if draw and draw.random() < share)
        self._number = 0
        self._loaded.clear()

    def end(self, called: str) -> None:
        """The call has ended."""
        self._counted[called] = self._last = max(1, self._number)
        self.places = frozenset()

    def before_load(self, load: tuple[int, ...]) -> None:
        """Stops before a load, perhaps. One that was made since the last store is a repetition.
        Raises WaitsForever."""
        if load in self._loaded:
            self._boards.own[REPEATED] += np.uint64(1)
            self._repeats += 1
            if self._repeats % HANG_REPEATS == 1:
                self._see_whether_it_ends()
            return
        self._loaded.add(load)
        self._step()

    def before_store(self) -> None:
        """Stops before a store, perhaps."""
        self.stored()
        self._step()

    def stored(self) -> None:
        """Loads that follow are no repetitions."""
        self._loaded.clear()

    def wait_for_peers(self) -> None:
        """Returns when every peer waits, stops or is done; at once where one stops already."""
        before, since = self._boards.now(), time.monotonic()
        if before[:, STOPPED].any():
            return
        self._boards.own[STOPPED] = 1
        while time.monotonic() - since < QUIET_S:
            time.sleep(LOOK_S)
            now = self._boards.now()
            if (now[:, STEPS] != before[:, STEPS]).any():
                before, since = now, time.monotonic()
                continue
            waits = now[:, REPEATED] - before[:, REPEATED] >= REPEATS
            if (waits | (now[:, [STOPPED, MET, DONE]] != 0).any(axis=1)).all():
                break
        self._boards.own[STOPPED] = 0

    def _see_whether_it_ends(self) -> None:
        """Raises WaitsForever where all ranks have long repeated loads only, or are done."""
        now = self._boards.now()
        if self._repeats == 1 or (now[:, STEPS] != self._looked[:, STEPS]).any():
            self._looked = now
            return
        waits = now[:, REPEATED] - self._looked[:, REPEATED] >= HANG_REPEATS
        if (waits | (now[:, DONE] != 0)).all():
            raise WaitsForever("every rank waits for a signal that none sends")

    def _step(self) -> None:
        self._repeats = 0
        if self._number in self.places:
            self.wait_for_peers()
        self._number += 1
        self._boards.own[STEPS] += np.uint64(1)


class StoppingBytes(np.ndarray[Any, Any]):
    """A view of shared memory: the NumPy engine's accesses by lists of indices are places to stop.

    Views of it, of any item size, are such views. An atomic operation, a load by [] and the store
    that follows, is one access, and no other rank's lies between.
    """

    stops: Stops | None
    lock: int
    held: bool

    def __array_finalize__(self, other: Any) -> None:
        self.stops = getattr(other, "stops", None)
        self.lock = getattr(other, "lock", -1)
        self.held = False

    @staticmethod
    def of(array: NDArray[np.uint8], stops: Stops, lock: int) -> StoppingBytes:
        """Returns a view of the array. `lock`: the opened file whose memory it is."""
        view = array.view(StoppingBytes)
        view.stops, view.lock = stops, lock
        return view

    def take(self, indices: Any, *more: Any, **named: Any) -> Any:
        """Takes elements like any array."""
        if self.stops is not None:
            self.stops.before_load(self._what(indices))
        return np.asarray(self).take(indices, *more, **named)

    def __getitem__(self, index: Any) -> Any:
        if self.stops is None or not isinstance(index, np.ndarray):
            return super().__getitem__(index)
        self.stops.before_load(self._what(index))
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.held = True
        return np.asarray(self)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.stops is None:
            super().__setitem__(index, value)
            return
        plain = np.asarray(self)
        if not self.held:
            self.stops.before_store()
        elif not np.array_equal(plain[index], value):
            self.stops.stored()
        plain[index] = value
        if self.held:
            self.held = False
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def _what(self, indices: Any) -> tuple[int, ...]:
        """Tells loads apart well enough to know a repeated one."""
        each = np.asarray(indices).reshape(-1)
        ends = (int(each[0]), int(each[-1])) if each.size else ()
        return int(self.__array_interface__["data"][0]), self.itemsize, each.size, *ends
