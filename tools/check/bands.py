"""Precision by place: a result that is not the nearest value of its dtype is right only where the
exact result lies near the midpoint of two values.

A right kernel's result before its last rounding lies within a band of the exact one: so many
float32 roundings of the absolute sum of the element's terms (task/precision.py). So its rounded
result lies between the roundings of the band's two ends, and any other is wrong. Where a task
allows an intermediate to be rounded once, the results of a kernel that does so have a band, too.

A code is held to the number over the scale that the kernel itself wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from astra_chat.tools.check.error_pattern import imprecise
from astra_chat.tools.check.floats import Array, beside_nearest, overflow_of, rounded, ulp
from astra_chat.tools.check.kinds import scale_ratios, to_code
from astra_chat.tools.check.measured_values import MeasuredPiece, coded, scale_places
from astra_chat.tools.check.norm import parts
from astra_chat.tools.run.oracle import rounded_of, terms_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.precision import FLUSHED
from astra_chat.tools.types import ITEM_BYTES, Wrong

SAMPLED = 2**12
"""Elements of a result at which the share inside the band is looked at."""
MOST_NEEDED = 2.0**20
"""Largest factor by which a band is widened: what is off further is no matter of rounding."""


@dataclass(frozen=True)
class Banded:
    """Some elements of a result in units of the element, with what decides about them."""

    got: Array
    expected: Array
    others: tuple[Array, ...]
    """Results of a kernel that rounds an intermediate once."""
    width: Array
    """Width of the band on either side of `expected`, in the same units."""


def has_band(task: Task, piece: MeasuredPiece) -> bool:
    """Whether anything says which results are near a midpoint. Results of float32 have a band where
    reference.py states the terms."""
    terms = terms_of(piece.oracle_case, piece.arg)
    return terms is not None and (terms[1] or is_narrow(piece))


def is_narrow(piece: MeasuredPiece) -> bool:
    """Whether the result has 16 bits or less."""
    return ITEM_BYTES[piece.arg.dtype_of(piece.case)] < 4


def off_places(piece: MeasuredPiece) -> Array:
    """Places in the piece where the result is not the nearest value, and has one."""
    dtype, found = piece.arg.dtype_of(piece.case), [np.empty(0, np.intp)]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for part in parts(len(piece.got)):
            got, expected = in_own_units(piece, part)
            off = np.flatnonzero(beside_nearest(got, expected, dtype))
            numbers = ~np.isnan(got[off]) & np.isfinite(expected[off])
            numbers &= np.abs(expected[off]) < overflow_of(dtype)
            found.append(part.start + off[numbers])
    return np.concatenate(found)


def banded(task: Task, piece: MeasuredPiece, places: Array) -> Banded:
    """The elements at these places of a piece that has a band."""
    arg, case = piece.arg, piece.case
    terms = terms_of(piece.oracle_case, arg)
    assert terms is not None, "it has a band"
    flat = piece.ran[places]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        got, expected = in_own_units(piece, places)
        width = np.asarray(terms[0][flat], dtype=np.float64) * task.band_factor(case) + FLUSHED
        others = [np.asarray(other[flat]) for other in rounded_of(piece.oracle_case, arg)]
        if piece.ratio is not None:
            ratio = _divisors(piece.ratio[places])
            width = width / ratio
            scales = _other_scales(task, piece, flat) if others else []
            others = [
                to_code(other, arg.dtype_of(case)) * _divisors(scale) / ratio
                for other, scale in zip(others, scales, strict=True)
            ]
    return Banded(got, expected, tuple(others), width)


def _other_scales(task: Task, piece: MeasuredPiece, flat: Array) -> list[Array]:
    """The scales of a kernel that rounds an intermediate over the expected ones, for these codes
    and each of its results."""
    judged = piece.arg.judged
    scale = next((a for a in task.args if judged and a.name == judged.scale and a.written), None)
    found = rounded_of(piece.oracle_case, scale) if scale else ()
    if scale is None or not found:
        return [np.ones(len(flat)) for _ in rounded_of(piece.oracle_case, piece.arg)]
    places = scale_places(piece.arg, piece.case, flat)
    wanted = np.asarray(piece.oracle_case.expected(scale)[places])
    return [scale_ratios(np.asarray(scales[places]), wanted) for scales in found]


def in_own_units(piece: MeasuredPiece, places: Array | slice) -> tuple[Array, Array]:
    """Returns got and expected; for codes the code and what it should be for the kernel's own
    scale."""
    expected = piece.expected[places]
    if piece.ratio is None or piece.codes is None:
        return piece.got[places], expected
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return piece.codes[places], expected / _divisors(piece.ratio[places])


def _divisors(ratios: Array) -> Array:
    """Returns the ratios to divide by: 1 where a ratio is 0. Where a scale is zero the code is what
    reference.py says."""
    return np.where(ratios == 0, 1.0, ratios)


def within(values: Banded, piece: MeasuredPiece, widening: float = 1.0) -> Array:
    """Which of the elements are right."""
    dtype = piece.arg.dtype_of(piece.case)
    width = values.width * widening
    good = ~np.isfinite(width)
    with np.errstate(invalid="ignore", over="ignore"):
        for exact in (values.expected, *values.others):
            low, high = rounded(exact - width, dtype), rounded(exact + width, dtype)
            good |= (low <= values.got) & (values.got <= high)
    return good


def needed(task: Task, piece: MeasuredPiece) -> float:
    """How many times as wide the band has to be for all of the piece: a half or another power of
    two."""
    places = off_places(piece)
    widening = 0.5
    while len(places) and widening < MOST_NEEDED:
        places = _outside(task, piece, places, widening)
        widening *= 2 if len(places) else 1
    return widening


def _outside(task: Task, piece: MeasuredPiece, places: Array, widening: float) -> Array:
    """Those of the places at which the result is wrong."""
    found = [places[:0]]
    for part in parts(len(places)):
        some = places[part]
        found.append(some[~within(banded(task, piece, some), piece, widening)])
    return np.concatenate(found)


def inside_share(task: Task, piece: MeasuredPiece) -> tuple[int, int]:
    """Returns how many sampled elements of the piece lie inside the band, where either neighbour is
    right, and how many of the sample are finite."""
    step = max(1, len(piece.got) // SAMPLED)
    places = np.arange(0, len(piece.got), step)
    values, dtype = banded(task, piece, places), piece.arg.dtype_of(piece.case)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        exact = np.stack([values.expected, *values.others])
        low = rounded((exact - values.width).min(axis=0), dtype)
        high = rounded((exact + values.width).max(axis=0), dtype)
        numbers = np.isfinite(values.expected)
        inside = numbers & ((low < high) | ~np.isfinite(values.width))
    return int(inside.sum()), int(numbers.sum())


def outside_band(task: Task, piece: MeasuredPiece, widening: float = 1.0) -> Wrong | None:
    """The results that are neither the nearest value nor near a midpoint."""
    bad = _outside(task, piece, off_places(piece), widening)
    return _wrong(piece, banded(task, piece, bad), bad, widening) if len(bad) else None


def _wrong(piece: MeasuredPiece, values: Banded, places: Array, widening: float) -> Wrong:
    """`values`: at these places, which are all wrong."""
    dtype = piece.arg.dtype_of(piece.case)
    unit = float(ulp(values.expected[:1], dtype)[0])
    steps = float(values.expected[0]) / unit
    distance = abs(abs(steps - np.floor(steps)) - 0.5)
    band = float(values.width[0]) * widening / unit
    return imprecise(
        piece.arg,
        piece.case,
        values.got,
        values.expected,
        piece.ran[places],
        total=len(piece.got),
        note=_note(piece, distance, band),
    )


def _note(piece: MeasuredPiece, distance: float, band: float) -> str:
    dtype = piece.arg.dtype_of(piece.case)
    if not is_narrow(piece):
        return (
            f"up to {band + 0.5:.3g} ulp away is correct here, to allow for float32's own rounding"
        )
    what = "for the scale that the kernel wrote, it" if coded(piece.arg) else "it"
    return (
        f"{what} is not the nearest {dtype}, so an earlier step is rounded too coarsely: compute"
        f" in float32 and round once, to nearest even (the exact value lies {distance:.3g} ulp from"
        f" the midpoint of two {dtype} values; float32's own roundings explain only {band:.2g} ulp)"
    )
