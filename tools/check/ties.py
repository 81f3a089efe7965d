"""Ties: exact results in the middle of two values, as sums of few 16-bit numbers often are.

Round to nearest even takes the even one, which has no direction; rounding half away or up has one.

Float32 sums of such numbers are exact, so where the baseline breaks ties to even, others do. Of
large numbers products are, too, whose other factor is an activation that has reached its end: SiLU
and GELU return such a number itself. Where a kernel computes the same in another way, its own
errors break ties to both sides alike: only such as all go one way (away from zero, towards it, up
or down) are held against it. Codes are left out, whose scales are quotients.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from astra_chat.tools.check.bands import in_own_units
from astra_chat.tools.check.floats import rounded, ulp
from astra_chat.tools.check.measured_values import MeasuredPiece, coded
from astra_chat.tools.types import DTypeName, Wrong, is_float

ONE_WAY = 0.9
"""Share of such ties that go the same way, from which on they have a direction."""
PART = 2**17
"""Elements of a case that are looked at."""
MANY = 64
"""Ties that are broken otherwise, below which they are chance."""
EXACT, INEXACT = 0.01, 0.04
"""Share of ties that a baseline breaks otherwise and is taken for exact, and from which on a
candidate is wrong: half of them are where each is broken away from zero, less where some columns
do."""


@dataclass
class Ties:
    """Ties among a kernel's results of normal and large values, by argument and dtype."""

    total: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    odd: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those that were not rounded to even."""
    away: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those of them that went away from zero."""
    up: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those of them that went up."""
    _last: dict[tuple[str, DTypeName], Wrong] = field(default_factory=dict)

    def add(self, piece: MeasuredPiece) -> None:
        """Count a piece of results."""
        dtype = piece.arg.dtype_of(piece.case)
        if not is_float(dtype) or coded(piece.arg):
            return
        got, expected = in_own_units(piece, slice(0, PART))
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.abs(expected / ulp(expected, dtype))
            steps -= np.floor(steps)  # exact, and a quarter of the time that % takes
            tie = np.flatnonzero(steps == 0.5)
            odd = tie[got[tie] != rounded(expected[tie], dtype)]
        kind = piece.arg.name, dtype
        self.total[kind] += len(tie)
        self.odd[kind] += len(odd)
        self.away[kind] += int((np.abs(got[odd]) > np.abs(expected[odd])).sum())
        self.up[kind] += int((got[odd] > expected[odd]).sum())
        if len(odd):
            first = int(odd[0])
            index = np.unravel_index(int(piece.ran[first]), piece.arg.shape_of(piece.case))
            self._last[kind] = Wrong(
                case=piece.case,
                argument=piece.arg.name,
                reason="precision",
                index=tuple(int(i) for i in index),
                expected=float(expected[first]),
                got=float(got[first]),
                bad=len(odd),
                total=len(got),
            )

    def merge(self, later: Ties) -> None:
        """Count what was counted elsewhere, of later results."""
        self.total.update(later.total)
        self.odd.update(later.odd)
        self.away.update(later.away)
        self.up.update(later.up)
        self._last |= later._last

    def beside(self, baseline: Ties) -> Wrong | None:
        """An argument whose ties are broken otherwise than the baseline's."""
        for kind, odd in self.odd.items():
            own = baseline.odd[kind] / max(1, baseline.total[kind])
            total = self.total[kind]
            ways = self.away[kind], odd - self.away[kind], self.up[kind], odd - self.up[kind]
            one_way = max(ways) >= ONE_WAY * odd
            if odd >= MANY and own <= EXACT and odd > INEXACT * total and one_way:
                note = (
                    f"{odd:,} of {total:,} exact results halfway between two values are not"
                    f" rounded to even, against only {own:.1%} of the baseline's: round to"
                    " nearest even"
                )
                return self._last[kind].model_copy(update={"note": note})
        return None
