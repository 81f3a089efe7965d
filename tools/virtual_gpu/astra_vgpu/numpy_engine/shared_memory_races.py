"""Races on shared memory, between warps and within one.

A race: two threads access the same bytes, one of them stores another value, and nothing in between
orders them. Between warps a barrier of the block orders, or a fence of one, an atomic operation of
it on shared memory, and one of the other whose result is of use: that covers the last warp of a
block. Within a warp __syncwarp() orders, too, and everything that its lanes do together (shuffles,
votes, tensor cores): since Volta the lanes of a warp need not run in lockstep.

Storing the value that is already there is no race with what is there: no order of the two can be
observed. It counts as a read: with a later store of another value it races.
Atomic operations do not race with one another, but with ordinary accesses they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.float_stores import INFINITIES
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import (
    Index,
    Site,
    lane_number,
    select,
)
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.ptx.syntax import Instruction, type_bits
from astra_vgpu.types import WARP_LANES, Launch

Stamps = NDArray[np.uint64]
_SITE, _LANE, _SYNC, _WARP, _EPOCH = (np.uint64(shift) for shift in (0, 13, 19, 31, 37))
"""First bit of each part of a stamp: which instruction (13 bits), lane (5), how often the warp's
lanes had met (12), warp (5), how many barriers of the block had opened (27)."""
_ONE = np.uint64(1)
LANE_BIT, WARP_BIT, EPOCH_BIT = int(_LANE), int(_WARP), int(_EPOCH)
SEVERAL = _ONE << np.uint64(18)
"""Bit of a stamp for several lanes of the warp; of a writer: they wrote the same value."""
MANY = _ONE << np.uint64(36)
"""Bit of a stamp for several warps."""
UNKNOWN_SITE = 0x1FFF
MAX_SYNCS = 0xFFF
Verb = Literal["read", "wrote", "at once", "changed atomically"]
"""What the earlier access did; "at once": both are stores of one instruction."""
Met = tuple[Stamps, NDArray[np.bool_], Verb]
"""Stamps of earlier accesses, which lanes clash with them, and what those did."""


class RaceCheck:
    """Remembers for each granule of shared memory which lanes wrote and read it last, and when."""

    def __init__(self, shape: tuple[int, int], shared_bytes: int, granule: int) -> None:
        granules = shared_bytes // granule
        self._granule = granule
        self._writer: Stamps = np.zeros(granules, np.uint64)
        self._reader: Stamps = np.zeros(granules, np.uint64)
        self._adder: Stamps | None = None
        """Stamps of atomic operations that changed something, kept as those of readers; made by the
        first."""
        self._stamps: Stamps = np.broadcast_to(
            (_ONE << _EPOCH) | threads_of(shape[1]), shape
        ).copy()
        self._syncs = 0
        warps = shape[1] // WARP_LANES
        self._fenced, self._posted = np.zeros((2, shape[0], warps), np.uint64)
        self._seen_posts = np.zeros((shape[0], warps, warps), np.uint64)
        """What orders warps since the last barrier, by block and warp, in meetings of the warp:
        what lies before its last fence; what it posted behind one; what it has seen of others."""
        self._sites: list[Site] = []
        self._numbers: dict[int, int] = {}

    def advance(self, rows: NDArray[np.bool_]) -> None:
        """A barrier of these blocks opened."""
        no_syncs = ~(np.uint64(MAX_SYNCS) << _SYNC)
        self._stamps[rows] = (self._stamps[rows] & no_syncs) + (_ONE << _EPOCH)
        self._fenced[rows] = self._posted[rows] = 0
        self._seen_posts[rows] = 0

    def synced(self, active: Active) -> None:
        """Lanes of these warps met: __syncwarp() or the like. Orders the whole warp, named or not:
        a missed race is better than a false positive."""
        self._syncs += 1
        if self._syncs % MAX_SYNCS == 0:
            self.advance(np.ones(self._stamps.shape[0], np.bool_))
        else:
            count_sync(self._stamps, active)

    def fence(self, active: Active) -> None:
        """What these lanes' warps did so far may be posted by an atomic operation of theirs."""
        here = active.mask.reshape(*self._fenced.shape, WARP_LANES).any(axis=2)
        met = self._stamps[:, ::WARP_LANES] >> _SYNC & np.uint64(MAX_SYNCS)
        self._fenced[here] = met[here] + _ONE

    def flag(self, active: Active) -> None:
        """An atomic operation on shared memory whose result is of use: it posts what lies before a
        fence, and looks at what others posted."""
        if not self._fenced.any():
            return
        here = active.mask.reshape(*self._fenced.shape, WARP_LANES).any(axis=2)
        self._posted[here] = self._fenced[here]
        rows, warps = np.nonzero(here)
        seen = np.maximum(self._seen_posts[rows, warps], self._posted[rows])
        seen[np.arange(rows.size), warps] = 0
        self._seen_posts[rows, warps] = seen

    def _unposted(self, active: Active, stamps: Stamps, clash: NDArray[np.bool_]) -> Any:
        """Those of the clashes that no such operations have ordered."""
        if not clash.any() or not self._seen_posts.any():
            return clash
        rows, threads = np.divmod(np.flatnonzero(active.mask), self._stamps.shape[1])
        by = (stamps >> _WARP & np.uint64(31)).astype(np.int64)
        by = np.minimum(by, self._seen_posts.shape[1] - 1)
        seen = self._seen_posts[rows, threads // WARP_LANES, by]
        return clash & ((stamps >> _SYNC & np.uint64(MAX_SYNCS)) >= seen)

    def read(self, f: Frame, site: Site, index: Index, active: Active) -> None:
        if site.ordered:
            return
        mine = self._mine(f, site, active)
        for granules in self._granules(site, index):
            writers = self._writer[granules]
            met: list[Met] = [(writers, writers_clash(writers, mine), "wrote")]
            if self._adder is not None:
                adders = self._adder[granules]
                met.append((adders, clashes(adders, mine), "changed atomically"))
            self._stop_at_first(f, site, index, active, mine, met)
            note_all(self._reader, granules, mine)

    def update(
        self, f: Frame, site: Site, index: Index, active: Active, changed: NDArray[np.bool_]
    ) -> None:
        """An atomic operation was done; `changed`: whose place holds another value than found."""
        if self._adder is None:
            self._adder = np.zeros_like(self._writer)
        mine = self._mine(f, site, active)
        for granules in self._granules(site, index):
            writers, readers = self._writer[granules], self._reader[granules]
            met: list[Met] = [
                (writers, writers_clash(writers, mine), "wrote"),
                (readers, clashes(readers, mine) & changed, "read"),
            ]
            self._stop_at_first(f, site, index, active, mine, met)
            note_all(self._adder, granules[changed], mine[changed])

    def write(
        self,
        f: Frame,
        site: Site,
        index: Index,
        active: Active,
        before: Array,
        values: Array,
        after: Array,
    ) -> None:
        """before, after: what the bytes held round the store; values: what each lane stored."""
        if site.ordered:
            return
        mine = self._mine(f, site, active)
        kind = site.float_type
        changed, overwritten = differ(before, values, kind), differ(after, values, kind)
        for granules in self._granules(site, index):
            earlier, readers = self._writer[granules], self._reader[granules]
            self._writer[granules] = mine
            last = self._writer[granules]
            met: list[Met] = [
                (earlier, writers_clash(earlier, mine) & changed, "wrote"),
                (readers, clashes(readers, mine) & changed, "read"),
                (last, clashes(last, mine) & overwritten, "at once"),
            ]
            if self._adder is not None:
                adders = self._adder[granules]
                met.append((adders, clashes(adders, mine) & changed, "changed atomically"))
            self._stop_at_first(f, site, index, active, mine, met)
            if not changed.all():
                self._writer[granules] = earlier
                self._writer[granules[changed]] = mine[changed]
                last = self._writer[granules]
                note_all(self._reader, granules[~changed], mine[~changed])
            alike = changed & within(last ^ mine)
            if alike.any():
                self._writer[granules[alike]] |= SEVERAL

    def copy_begins(self, f: Frame, site: Site, index: Index, active: Active) -> None:
        """A cp.async may arrive from now on, whatever it brings: nobody may still read there."""
        mine = self._mine(f, site, active)
        for granules in self._granules(site, index):
            readers = self._reader[granules]
            met: list[Met] = [(readers, clashes(readers, mine), "read")]
            self._stop_at_first(f, site, index, active, mine, met)

    def _stop_at_first(
        self, f: Frame, site: Site, index: Index, active: Active, mine: Stamps, met: Sequence[Met]
    ) -> None:
        """Raises Fault for the first of these in which lanes clash."""
        for stamps, found, verb in met:
            clash = self._unposted(active, stamps, found)
            if clash.any():
                lane = first_clash(clash, stamps ^ mine)
                raise self._fault(f, site, index, active, lane, stamps, verb)

    def _mine(self, f: Frame, site: Site, active: Active) -> Stamps:
        if id(site) not in self._numbers:
            self._numbers[id(site)] = min(len(self._sites), UNKNOWN_SITE)
            self._sites.append(site)
        return np.asarray(
            select(self._stamps, active, f.shape) | np.uint64(self._numbers[id(site)])
        )

    def _granules(self, site: Site, index: Index) -> Iterator[Index]:
        each = site.size // self._granule
        for part in range(each):
            yield index * each + part

    def _fault(
        self, f: Frame, site: Site, index: Index, active: Active, lane: int, met: Stamps, verb: Verb
    ) -> Exception:
        number = lane_number(active, lane)
        stamp = int(met[lane])
        other = (stamp >> int(_WARP) & 31) * WARP_LANES + (stamp >> int(_LANE) & 31)
        known = stamp & UNKNOWN_SITE
        origin = int(select(f.shared.origin, active, f.shape)[lane])
        message = race_message(
            f.launch,
            site.verb,
            site.size,
            verb,
            number % f.shape[1],
            other,
            bool(stamp & int(MANY)),
            self._sites[known].instruction if known != UNKNOWN_SITE else None,
            f"shared offset {int(index[lane]) * site.size - origin}",
        )
        return f.fault(site.instruction, "race", message, machine.LAUNCH_FAILURE, number)


def race_message(
    launch: Launch,
    does: str,
    size: int,
    verb: Verb,
    thread: int,
    other: int,
    many: bool,
    instruction: Instruction | None,
    place: str,
    kind: str = "shared-memory race",
) -> str:
    """thread: who reads or writes (`does`); other: who did before, one of several if `many`; both
    linear in their block. instruction: that of the other. place: where in memory."""
    if verb == "read" and instruction is not None and instruction.family == "st":
        verb = "wrote"  # what was there already
    mine, others = thread // WARP_LANES, other // WARP_LANES
    if many or mine != others:
        warps_text = "several warps" if many else f"warp {others}"
        did = "wrote" if verb == "at once" else verb
        message = (
            f"warp {mine} {does}s {size} bytes that {warps_text} {did} since the last barrier, and"
            " no __syncthreads() lies between"
        )
    elif verb == "at once":
        message = (
            f"two lanes of warp {mine} write different values to the same {size} bytes at once"
        )
    else:
        missing = "__syncwarp()"
        if launch.block.count > WARP_LANES:
            missing = "__syncthreads(), or __syncwarp() if no other warp uses these bytes,"
        message = (
            f"a lane of warp {mine} {does}s {size} bytes that another lane of it {verb}, and no "
            f"{missing} lies between"
        )
    where = [] if instruction is None else [instruction.source or f"PTX line {instruction.line}"]
    if other != thread:
        thread_of_it = machine.coordinates(other, launch.block)
        where.append(f"thread {thread_of_it} of the same kernel and block")
    where.append(place)
    return f"{kind}: {message}; the other access: {', '.join(where)}"


def threads_of(threads: int) -> Stamps:
    """Warp and lane of each thread of a block, as stamps hold them: [1, threads]."""
    warp, lane = np.divmod(np.arange(threads, dtype=np.uint64)[None, :], np.uint64(WARP_LANES))
    return np.asarray((warp << _WARP) | (lane << _LANE))


def count_sync(stamps: Stamps, active: Active) -> None:
    """The lanes of these warps met. stamps: [blocks, threads]."""
    if active.dense:
        stamps += _ONE << _SYNC
    else:
        warps = active.mask.reshape(-1, WARP_LANES).any(axis=1)
        stamps.reshape(-1, WARP_LANES)[warps] += _ONE << _SYNC


def between(apart: Stamps) -> NDArray[np.bool_]:
    """Whether stamps are of different warps and the same epoch. apart: two of them, xor."""
    return np.asarray((apart - (_ONE << _WARP)) < ((_ONE << _EPOCH) - (_ONE << _WARP)))


def first_clash(clash: NDArray[np.bool_], apart: Stamps) -> int:
    """The first of these that is between warps, if any is: what is missing is a barrier of the
    block then."""
    outside = clash & between(apart)
    return int(np.argmax(outside if outside.any() else clash))


def within(apart: Stamps) -> NDArray[np.bool_]:
    """Whether stamps are of different lanes of a warp that has not met since. apart: two, xor."""
    return np.asarray((apart - (_ONE << _LANE)) < ((_ONE << _SYNC) - (_ONE << _LANE)))


def clashes(stamps: Stamps, mine: Stamps) -> NDArray[np.bool_]:
    apart = stamps ^ mine
    if apart.min() >= _ONE << _EPOCH:  # a barrier lies between, as mostly
        return np.zeros(apart.shape, np.bool_)
    return between(apart) | within(apart)


def writers_clash(writers: Stamps, mine: Stamps) -> NDArray[np.bool_]:
    """Which lanes clash with earlier writers. Where several lanes wrote the same value, one's own
    may be among them."""
    clash = clashes(writers, mine)
    if clash.any():
        clash &= between(writers ^ mine) | ((writers & SEVERAL) == 0)
    return clash


def note_all(noted: Stamps, granules: Index, mine: Stamps) -> None:
    """Notes that these lanes, which do not race with one another, were there."""
    stamp = _joined(mine, noted[granules]) if granules.size else mine
    noted[granules] = stamp
    last = noted[granules]
    lost = last != stamp
    if lost.any():
        where, last, mine = granules[lost], last[lost], mine[lost]
        apart = last ^ mine
        inside, outside = within(apart), between(apart)
        noted[where[inside]] = last[inside] | SEVERAL
        noted[where[outside]] = last[outside] | MANY


def _joined(mine: Stamps, known: Stamps) -> Stamps:
    """Stamps of new readers, with what they have to keep of those before."""
    apart = known ^ mine
    if apart.min() >= _ONE << _EPOCH:
        return mine
    inside, outside = within(apart), between(apart)
    if inside.any():
        mine = np.where(inside, mine | SEVERAL, mine)
    if outside.any():
        mine = np.where(outside, mine | MANY, mine)
    return mine


def differ(left: Array, right: Array, float_type: str = "") -> NDArray[Any]:
    """Which items differ; floats of this type do not where both are NaNs."""
    if left.dtype.itemsize < 16:
        found = np.asarray(left.view(right.dtype) != right)
    else:
        a, b = (x.view(np.uint64).reshape(-1, 2) for x in (left, right))
        found = np.asarray((a != b).any(axis=1))
    if not float_type or not found.any():
        return found
    bits = np.dtype(f"u{type_bits(float_type) // 8}")
    a, b = (
        np.ascontiguousarray(x[found]).view(bits).reshape(int(found.sum()), -1)
        for x in (left, right)
    )
    found[found] = ((a != b) & ~(_are_nans(a, float_type) & _are_nans(b, float_type))).any(axis=1)
    return found


def _are_nans(bits: Array, float_type: str) -> NDArray[Any]:
    infinity = bits.dtype.type(INFINITIES[float_type])
    return np.asarray(bits << bits.dtype.type(1) > infinity << bits.dtype.type(1))
