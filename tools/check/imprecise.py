"""What is said of results that no tolerance refuses and that are wrong all the same."""

from __future__ import annotations

import numpy as np

from astra_chat.tools.check.error_pattern import error_pattern
from astra_chat.tools.check.floats import Array, ulp
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import Case, Wrong

FAR_ULPS, FAR_SHARE = 8, 0.01
"""A result that is further off, in units in the last place and in its share, is wrong rather than
imprecise."""
OR_NO_ROUNDING = "a slightly wrong constant or a missing term would have the same effect"
FAR_NOTE = "rounding does not explain this, although the task's tolerance allows it"


def imprecise(
    arg: Arg, case: Case, got: Array, expected: Array, flat: Array, *, total: int, note: str
) -> Wrong:
    """Returns what is wrong with these results of an argument: float64 values of the wrong ones
    alone, and their places in row-major order.

    `total`: results that were compared. `note`: what to do about a rounding; left out where the
    first result is off by more than rounding explains.
    """
    unit = float(ulp(expected[:1], arg.dtype_of(case))[0])
    apart = abs(float(got[0]) - float(expected[0]))
    far = apart > max(FAR_ULPS * unit, FAR_SHARE * abs(float(expected[0])))
    pattern = error_pattern(got, expected, flat, max(1, arg.shape_of(case)[-1]))
    note = f"{note}; {OR_NO_ROUNDING}" if pattern else note
    return Wrong(
        case=case,
        argument=arg.name,
        reason="value" if far else "precision",
        index=tuple(int(i) for i in np.unravel_index(int(flat[0]), arg.shape_of(case))),
        expected=float(expected[0]),
        got=float(got[0]),
        bad=len(flat),
        total=total,
        note="; ".join(filter(None, [pattern, FAR_NOTE if far else note])),
    )
