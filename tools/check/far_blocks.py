"""Blocks of a far call that leave out what is theirs.

Of such a call only some blocks of each launch run (check/far_calls.py), so an element that nobody
wrote may belong to a block that did not run. Where those blocks that wrote did so at places that
follow from their coordinates in the grid, the places of the others are known, too: a block that ran
and wrote nothing, or less than others, has left out its place if the baseline writes there. Nothing
is said where the places follow no such rule, where such blocks lie between others, or where another
block may write there.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.run.protocol import StoredBlocks

MORE_BLOCKS = 2
"""A rule for the places of blocks holds for at least so many more than it takes to state it."""
MOST_TRIED = 4096
"""Most coordinates on the two shorter axes of a grid that are tried one after the other."""
MOST_LACKING = 16
"""Most blocks of a launch whose places are looked at."""
SMALL = 1e-9
"""Share of a length that is rounding."""
Coordinates = tuple[int, int, int]


@dataclass(frozen=True)
class SilentBlocks:
    """Blocks of a launch that ran and left out what they had to write of an argument."""

    argument: str
    blocks: int
    ran: int
    first: Coordinates
    place: int
    """Bytes from the argument's begin to what the first of them had to write."""
    nbytes: int
    """What most of the others wrote, from the first byte to the last."""

    @property
    def note(self) -> str:
        return (
            f"at least {self.blocks:,} of the {self.ran:,} blocks that ran did not write their"
            f" part, starting with block {self.first}: byte {self.place:,} was not written"
        )


@dataclass(frozen=True)
class _Places:
    """Where in an argument the blocks of a launch begin to write: a sum over the coordinates."""

    origin: int
    steps: Coordinates
    basis: NDArray[np.float64]
    """Directions from the first block to the others that it was learned from, each of length 1."""
    scale: NDArray[np.float64]
    """What coordinates are divided by there."""
    base: Coordinates

    def of(self, block: Coordinates) -> int | None:
        """Where a block begins; None where the blocks known say nothing of it."""
        way = np.subtract(block, self.base) / self.scale
        if not np.allclose(way @ self.basis.T @ self.basis, way, atol=1e-9):
            return None
        return self.origin + _product(self.steps, block)

    def cover(self, place: int, nbytes: int, allowed: Sequence[range]) -> bool:
        """Whether a block with coordinates in these ranges writes there, or may, if each writes so
        many bytes."""
        *short, longest = sorted(range(3), key=lambda axis: len(allowed[axis]))
        if math.prod(len(allowed[axis]) for axis in short) > MOST_TRIED:
            return True
        for some in itertools.product(*(allowed[axis] for axis in short)):
            parts = zip(short, some, strict=True)
            rest = place - self.origin - sum(self.steps[axis] * value for axis, value in parts)
            if _is_reached(rest, self.steps[longest], nbytes, allowed[longest]):
                return True
        return False


def _is_reached(place: int, step: int, nbytes: int, counts: range) -> bool:
    """Whether place - step * n lies in range(nbytes) for one of these n."""
    if not counts or step == 0:
        return bool(counts) and 0 <= place < nbytes
    low, high = sorted((place, place - nbytes + 1), key=lambda end: end / step)
    first, last = -(-low // step), high // step
    return max(first, counts.start) <= min(last, counts.stop - 1)


def _product(steps: Coordinates, block: Coordinates) -> int:
    return sum(step * at for step, at in zip(steps, block, strict=True))


class _Part:
    """What the blocks of one launch wrote of one argument."""

    def __init__(self, said: StoredBlocks) -> None:
        self.said = said
        self.wrote = {self._at(row[0]): row[1:] for row in said.blocks if row[1] >= 0}
        self.silent = [self._at(row[0]) for row in said.blocks if row[1] < 0]
        self.end = max((end for _, end in self.wrote.values()), default=0)

    def _at(self, block: int) -> Coordinates:
        x, y, _ = self.said.grid
        return block % x, block // x % y, block // (x * y)

    @property
    def _whole(self) -> list[range]:
        return [range(extent) for extent in self.said.grid]

    @cached_property
    def usual(self) -> int:
        """What most blocks wrote, from the first byte to the last; 0 where none did."""
        counts = Counter(end - begin for begin, end in self.wrote.values())
        return counts.most_common(1)[0][0] if counts else 0

    @cached_property
    def short(self) -> list[Coordinates]:
        """Blocks that wrote less, where none wrote more."""
        lengths = {at: end - begin for at, (begin, end) in self.wrote.items()}
        if any(length > self.usual for length in lengths.values()):
            return []
        return [at for at, length in lengths.items() if length < self.usual]

    @cached_property
    def places(self) -> _Places | None:
        """The rule that all blocks that wrote follow; None where there is none, or where what one
        wrote lies between what another did."""
        spans = sorted(self.wrote.values())
        if any(b[0] < a[1] for a, b in itertools.pairwise(spans)):
            return None
        at = np.array(list(self.wrote), np.float64)
        begins = np.array([begin for begin, _ in self.wrote.values()], np.float64)
        ways, base = at - at[0], next(iter(self.wrote))
        scale = np.maximum(np.abs(ways).max(axis=0), 1)
        lengths, directions = np.linalg.svd(ways / scale, full_matrices=False)[1:]
        basis = directions[lengths > SMALL * max(lengths)]
        if len(spans) < len(basis) + 1 + MORE_BLOCKS:
            return None
        found = np.linalg.lstsq(ways / scale, begins - begins[0], rcond=SMALL)[0] / scale
        x, y, z = (round(float(step)) for step in found)
        steps = (x, y, z)
        origin = self.wrote[base][0] - _product(steps, base)
        if any(origin + _product(steps, b) != span[0] for b, span in self.wrote.items()):
            return None
        return _Places(origin, steps, basis, scale, base)

    def lacking(self, may_stay: bool) -> Iterator[tuple[list[Coordinates], list[range]]]:
        """Yields blocks that wrote nothing, or less than others, where all of them lie beyond the
        others on one axis; and the coordinates of those others. `may_stay`: what the argument holds
        may be its result, so where blocks leave gaps, the end of a shorter one may begin a gap."""
        short = [] if may_stay and not self.said.dense else self.short
        for lacking in (self.silent, self.silent + short):
            others = self.wrote.keys() - lacking
            if lacking and others and (allowed := self._before(lacking, others)):
                yield lacking, allowed

    def _before(
        self, lacking: Sequence[Coordinates], others: Collection[Coordinates]
    ) -> list[range] | None:
        for axis in range(3):
            own = [block[axis] for block in others]
            beyond = [block[axis] for block in lacking]
            allowed = self._whole
            if min(beyond) > max(own):
                allowed[axis] = range(min(beyond))
                return allowed
            if max(beyond) < min(own):
                allowed[axis] = range(max(beyond) + 1, self.said.grid[axis])
                return allowed
        return None

    def may_write(self, place: int) -> bool:
        """Whether one of its blocks may write there."""
        if self.places is not None:
            return self.places.cover(place, self.usual, self._whole)
        return min(begin for begin, _ in self.wrote.values()) <= place < self.end

    def writes(self, place: int) -> bool:
        """Whether one of its blocks does, as far as is known: those on one side of the grid, and
        the same but for the grid's last."""
        x, y, z = self.said.grid
        allowed = self._before(self.silent, self.wrote) if self.silent else self._whole
        if allowed is None or self.places is None or place >= self.end or not self.said.dense:
            return False
        lengths = [end - begin for begin, end in self.wrote.values()]
        even = set(lengths) == {self.usual} or self.short == [(x - 1, y - 1, z - 1)]
        nbytes = self.usual if even else min(lengths)
        return self.places.cover(place, nbytes, allowed)


def silent_blocks(
    candidate: Sequence[StoredBlocks],
    baseline: Sequence[StoredBlocks],
    in_place: Collection[str] = (),
) -> SilentBlocks | None:
    """Returns blocks of a candidate's call that left out what the baseline's writes, if any.

    Args:
        candidate: what its launches stored.
        baseline: what the baseline's launches stored in the same call.
        in_place: names of arguments that are read, too, such as a query whose elements are rotated
            in part: the others need not be written.
    """
    parts = [part for part in map(_Part, candidate) if part.wrote]
    known = [part for part in map(_Part, baseline) if part.wrote]
    for part in parts:
        of = [one for one in known if one.said.argument == part.said.argument]
        others = [one for one in parts if one.said.argument == part.said.argument]
        others.remove(part)
        for lacking, allowed in part.lacking(part.said.argument in in_place):
            if found := _left_out(part, lacking, allowed, others, of):
                return found
    return None


def _left_out(
    part: _Part,
    lacking: Sequence[Coordinates],
    allowed: Sequence[range],
    others: Sequence[_Part],
    known: Sequence[_Part],
) -> SilentBlocks | None:
    if (places := part.places or _same_places(part, known)) is None:
        return None
    left = list[tuple[Coordinates, int]]()
    for block in lacking[:: math.ceil(len(lacking) / MOST_LACKING)]:
        place = part.wrote[block][1] if block in part.wrote else places.of(block)
        if place is None or places.cover(place, part.usual, allowed):
            continue
        if any(one.writes(place) for one in known) and not any(o.may_write(place) for o in others):
            left.append((block, place))
    if not left:
        return None
    return SilentBlocks(
        argument=part.said.argument,
        blocks=len(left),
        ran=len(part.said.blocks),
        first=left[0][0],
        place=left[0][1],
        nbytes=part.usual,
    )


def _same_places(part: _Part, known: Sequence[_Part]) -> _Places | None:
    """The rule of a baseline's launch with the same grid that the blocks that wrote follow, too:
    two of them tell it, where too few wrote for a rule of their own."""
    for one in known:
        if (
            one.places is not None
            and (one.said.grid, one.usual) == (part.said.grid, part.usual)
            and len(part.wrote) > 1
            and all(one.places.of(at) == begin for at, (begin, _) in part.wrote.items())
        ):
            return one.places
    return None
