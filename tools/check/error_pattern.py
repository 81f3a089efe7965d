"""What wrong results have in common: it often says more of the cause than the first of them."""

from __future__ import annotations

import math

import numpy as np

from astra_chat.tools.check.floats import Array, ulp
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import Case, Wrong

MOST, LEAST, LEAST_OF_ROW = 4096, 8, 4
"""Wrong results that are looked at, the first ones; fewest of all and of a row that show a
pattern."""
TELLING = 1e-3
"""A factor that is nearer to 1 may be a rounding."""
MODULI, BITS = (32, 16, 8, 4, 2), 16
"""Steps of columns that are looked for, and how unlikely it has to be that chance made one, in
bits."""
SPREAD = 0.1
"""How far apart the factors of one row may lie, over the factor's distance from 1."""


def error_pattern(got: Array, expected: Array, flat: Array, width: int) -> str:
    """Returns what wrong results have in common, as text, or "".

    `got`, `expected`: float64 values of the wrong results; `flat`: their places in row-major order;
    `width`: elements of a row.
    """
    got, expected, flat = got[:MOST], expected[:MOST], flat[:MOST]
    kept = np.isfinite(got) & np.isfinite(expected) & (expected != 0)
    if kept.sum() < LEAST:
        return ""
    order = np.argsort(flat[kept], kind="stable")
    with np.errstate(over="ignore"):  # beside an expected denormal number
        ratios = (got[kept] / expected[kept])[order]
    rows, columns = divmod(flat[kept][order], width)
    said = [_of_values(ratios, rows), _of_columns(columns)]
    return "; ".join(filter(None, said))


def _of_values(ratios: Array, rows: Array) -> str:
    starts = np.flatnonzero(np.r_[True, np.diff(rows) != 0])
    parts = [part for part in np.split(ratios, starts[1:]) if len(part) >= LEAST_OF_ROW]
    if parts and all(map(_is_one_factor, parts)):
        factor = float(np.median(parts[0]))
        return f"each wrong row is off by a single factor, such as {factor:.4g}"
    for word, same in (("large", ratios > 1), ("small", (ratios < 1) & (ratios >= 0))):
        if same.all():
            return f"all of them are too {word} in magnitude"
    return ""


def _of_columns(columns: Array) -> str:
    """In which columns all of them are, by the largest power of two that tells."""
    if len(set(columns.tolist())) < LEAST:
        return ""
    for modulus in MODULI:
        left = set((columns % modulus).tolist())
        if len(left) == 1 and len(columns) * math.log2(modulus) >= BITS:
            return f"all of them are in columns whose index is {left.pop()} modulo {modulus}"
    return ""


def _is_one_factor(ratios: Array) -> bool:
    low, factor, high = np.percentile(ratios, (5, 50, 95))
    apart = abs(factor - 1)
    return bool(apart > TELLING and high - low <= SPREAD * apart)


# What is said of results that no tolerance refuses and that are wrong all the same.

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
