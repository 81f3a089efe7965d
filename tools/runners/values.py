"""Value families: distributions of a case's input values (normal, special, heavy_tail, ...).

An argument that may hold any numbers is given a family of its own in drawn cases (`draw_argument`).
There all large numbers of a case have one sign: sums of large numbers of both signs cancel, and no
tolerance holds for what is left.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from astra_chat.tools.case import LARGE_ROWS
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import AnyFamily, ValueFamily

Shape = tuple[int, ...]
Draw = Callable[[torch.Generator, Shape, torch.dtype], torch.Tensor]
LEAST = 4.0
"""Small number of the family `special`, in least normal numbers."""
SPECIAL_SHARE = 32
"""One element in this many is special in the family `special`."""
BARE_BIT, BARE_ONE_IN = 4, 8
"""Bit of a seed that says whether rows of one or two values are among the special ones, and one in
how many rows is such a row."""
BARE = (
    (0.0, math.nan),
    (math.inf, math.inf),
    (1.0, math.nan),
    (math.nan, math.nan),
    (0.0, math.inf),
    (-0.0, 0.0),
)
"""Rows of one or two values: the value of the row, and that of one of its elements."""
LARGE_ALONE = 2.0**60
"""Largest number of rows that have one large number, where the contract names no other: float32
holds its square."""
HEAVIEST = 200.0
"""Bound of the family `heavy_tail`: products of two still fit float16."""
USUAL = 2.0**-14
"""Most of a range of float32 lies below, where no kernel has results."""
FAR = 100.0
"""So many times as large is far apart."""
MIXED: tuple[AnyFamily, ...] = (
    "special",
    "large",
    "zeros",
    "special",
    "tiny",
    "denormal",
    "row_magnitudes",
)
"""Families of the rows of `mixed_rows` that are not normal, by turns."""
MIXED_ONE_IN = 3
"""One row of the family `mixed_rows` in so many is of another family; the others are normal."""
MOST_SHIFTED = 1e6
"""Largest shift of the family `shifted`: float32 still distinguishes numbers that differ by one."""


@dataclass(frozen=True)
class DrawnCase:
    """What reference.py sees of a case."""

    dims: dict[str, int]
    dtype: torch.dtype
    values: ValueFamily
    types: Mapping[str, torch.dtype] = field(default_factory=dict)
    """What each type variable stands for, by name."""
    scalars: Mapping[str, float] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    """Optional arguments that are null pointers."""
    indexed: Mapping[str, Callable[[torch.Generator], torch.Tensor]] = field(default_factory=dict)
    """Draws an index argument, by name."""

    def draw(
        self, generator: torch.Generator, shape: tuple[int, ...], dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Tensor of the case's value family, on the CPU; of the case's dtype, or of another."""
        wanted = dtype or self.dtype
        if wanted.is_floating_point and wanted.itemsize == 1:
            most = torch.finfo(wanted).max
            drawn = _FAMILIES[self.values](generator, shape, torch.float32)
            return torch.where(drawn.isfinite(), drawn.clamp(-most, most), drawn).to(wanted)
        return _FAMILIES[self.values](generator, shape, wanted)

    def indices(self, generator: torch.Generator, name: str) -> torch.Tensor:
        """Legal values of an index argument. Raises KeyError for another."""
        if name not in self.indexed:
            raise KeyError(f"task.toml declares no index for '{name}'")
        return self.indexed[name](generator)


def _normal(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def _scaled(scale: float) -> Draw:
    def draw(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
        return (torch.randn(shape, generator=g) * scale).to(dtype)

    return draw


def _denormal(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """Below the least normal number: 1 / x is infinite, and fast maths takes it for 0. Drawn in
    float64: arithmetic in float32 may flush it here, too."""
    drawn = 2 * torch.rand(shape, generator=g, dtype=torch.float64) - 1
    return (drawn * torch.finfo(dtype).tiny).to(dtype)


def _ramp(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """-8 to 8, in a period that is not a power of two: a shifted index shows. The seed says where
    it begins, the same for all arguments: with another seed a lone sum errs by another amount."""
    count, begin = int(torch.Size(shape).numel()), g.initial_seed() % 1009
    return ((begin + torch.arange(count)) % 1009 / 1008 * 16 - 8).reshape(shape).to(dtype)


def _one_hot(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """A single one in every row: subsampling and broken tails lose it."""
    rows = torch.zeros(shape).reshape(-1, shape[-1])
    at = torch.randint(shape[-1], (rows.shape[0], 1), generator=g)
    return rows.scatter_(1, at, 1.0).reshape(shape).to(dtype)


def _special(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """NaN, zeros of either sign, a few times the least normal number, since zero times infinity is
    NaN where half of it is flushed to zero; and either both infinities, or infinity
    and the largest number of one sign: the largest number with one of the other sign, or with the
    other infinity, has sums that depend on their order. The seed's last bit says which, that before
    it the sign, so that all arguments have the same."""
    info, seed = torch.finfo(dtype), g.initial_seed()
    sign = -1.0 if seed & 2 else 1.0
    extremes = (math.inf, -math.inf) if seed & 1 else (sign * math.inf, sign * info.max)
    palette = torch.tensor([*extremes, math.nan, 0.0, -0.0, LEAST * info.tiny])
    drawn = torch.randn(shape, generator=g)
    chosen = torch.randint(len(palette) * SPECIAL_SHARE, shape, generator=g)
    mixed = torch.where(chosen < len(palette), palette[chosen.clamp(max=len(palette) - 1)], drawn)
    if seed & BARE_BIT:
        mixed = _with_bare_rows(g, mixed, extremes[0])
    if seed & LARGE_ROWS:
        mixed = _with_large_rows(g, mixed, sign * min(info.max, LARGE_ALONE), sign * math.inf)
    return mixed.to(dtype)


def _with_bare_rows(g: torch.Generator, mixed: torch.Tensor, infinity: float) -> torch.Tensor:
    """One row in BARE_ONE_IN, one at least, of the kinds of BARE by turns; infinities are of one
    sign."""
    rows = mixed.reshape(-1, mixed.shape[-1])
    if not rows.numel():
        return mixed
    bare = torch.randint(BARE_ONE_IN, (len(rows),), generator=g) == 0
    bare[int(torch.randint(len(rows), (1,), generator=g))] = True
    turn = int(torch.randint(len(BARE), (1,), generator=g))
    for number, row in enumerate(bare.nonzero().flatten().tolist()):
        usual, other = BARE[(number + turn) % len(BARE)]
        signed = [infinity if math.isinf(value) else value for value in (usual, other)]
        rows[row] = signed[0]
        rows[row, int(torch.randint(rows.shape[1], (1,), generator=g))] = signed[1]
    return rows.reshape(mixed.shape)


def _with_large_rows(g: torch.Generator, mixed: torch.Tensor, *large: float) -> torch.Tensor:
    """One row in BARE_ONE_IN, one at least, of normal numbers beside one of the large numbers, by
    turns."""
    rows = mixed.reshape(-1, mixed.shape[-1])
    chosen = torch.randperm(len(rows), generator=g)[: max(1, len(rows) // BARE_ONE_IN)]
    for number, row in enumerate(chosen.tolist() if rows.numel() else ()):
        rows[row] = torch.randn(rows.shape[1], generator=g)
        at = int(torch.randint(rows.shape[1], (1,), generator=g))
        rows[row, at] = large[number % len(large)]
    return rows.reshape(mixed.shape)


def _heavy_tail(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """A few elements outweigh all others: sampling, and sums in a poor order, lose them."""
    spread = torch.exp(2 * torch.randn(shape, generator=g))
    drawn = torch.randn(shape, generator=g) * spread
    return drawn.clamp(-HEAVIEST, HEAVIEST).to(dtype)


def _binary(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """Zeros and ones: short sums and products are exact, so nothing has to be tolerated."""
    return torch.randint(2, shape, generator=g).to(dtype)


_FAMILIES: dict[ValueFamily, Draw] = {
    "normal": _normal,
    "large": _scaled(64.0),
    "tiny": _scaled(1e-4),
    "denormal": _denormal,
    "ramp": _ramp,
    "one_hot": _one_hot,
    "special": _special,
    "heavy_tail": _heavy_tail,
    "binary": _binary,
}


@dataclass(frozen=True)
class Numbers:
    """Which numbers the single arguments of a case may hold."""

    largest: float
    """Largest magnitude."""
    sign: float
    """Sign of large numbers: 1.0 or -1.0."""
    shift: float
    """What the family `shifted` adds: the same for all arguments of a case, whose differences stay
    of the order of one."""

    @staticmethod
    def of(seed: int, largest: float, dtype: torch.dtype) -> Numbers:
        """Returns the numbers of the case with this seed, for an argument of this dtype."""
        draws = random.Random(seed)
        sign = draws.choice((1.0, -1.0))  # large_sign(seed)
        exponent = draws.uniform(0.0, math.log10(MOST_SHIFTED))
        largest = min(largest, float(torch.finfo(dtype).max))
        return Numbers(largest, sign, sign * min(10.0**exponent, largest / 4))


DrawArgument = Callable[[torch.Generator, Shape, torch.dtype, Numbers], torch.Tensor]
"""Draws float64 values of a shape for an argument of a dtype."""


def draw_argument(
    family: AnyFamily, g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Tensor [shape] of a dtype, whose finite values are at most `numbers.largest`."""
    if own := _OF_ARGUMENTS.get(family):
        drawn = own(g, shape, dtype, numbers)
    else:
        drawn = _FAMILIES[family](g, shape, dtype).double()  # type: ignore[index]
    bounded = drawn.clamp(-numbers.largest, numbers.largest)
    return torch.where(drawn.isinf(), drawn, bounded).to(dtype)


class Range(NamedTuple):
    """The numbers between two ends, of the case with this seed."""

    seed: int
    low: float
    high: float
    minus_infinity: bool = False
    """Whether negative infinity is legal, too."""


def draw_in_range(
    family: AnyFamily, g: torch.Generator, shape: Shape, dtype: torch.dtype, between: Range
) -> torch.Tensor:
    """Tensor [shape] of a dtype: evenly spread for `normal` (in the logarithm, where the ends are
    positive and far apart), else the family's numbers, as far as they lie between the ends; where
    negative infinity is legal it stands in the place of NaN and infinities."""
    low, high = _inward(between, dtype)
    nothing = torch.zeros(shape, dtype=torch.bool)
    if family == "normal":
        evenly = torch.rand(shape, generator=g, dtype=torch.float64)
        far = low > 0 and high > FAR * low
        drawn = low * (high / low) ** evenly if far else low + (high - low) * evenly
    else:
        numbers = Numbers.of(between.seed, max(abs(low), abs(high)), dtype)
        drawn = draw_argument(family, g, shape, dtype, numbers).double()
        nothing = ~drawn.isfinite() if between.minus_infinity else nothing
        drawn = drawn.nan_to_num()
        if low >= 0 or high <= 0:
            drawn = drawn.abs() * (1.0 if low >= 0 else -1.0)
    drawn = drawn.clamp(low, high).to(dtype).double().clamp(low, high)
    return torch.where(nothing, -math.inf, drawn).to(dtype)


def _inward(between: Range, dtype: torch.dtype) -> tuple[float, float]:
    """The first and the last number of the dtype between these ends."""
    info = torch.finfo(dtype)

    def nearest(end: float) -> float:
        return float(torch.tensor(end, dtype=torch.float64).clamp(info.min, info.max).to(dtype))

    low, high = nearest(between.low), nearest(between.high)
    if low < between.low:
        low = nearest(between.low + abs(between.low) * info.eps) or info.tiny
    if high > between.high:
        high = nearest(between.high - abs(between.high) * info.eps) or -info.tiny
    return low, high


def _one_sign(family: ValueFamily) -> DrawArgument:
    def draw(g: torch.Generator, shape: Shape, dtype: torch.dtype, n: Numbers) -> torch.Tensor:
        return _FAMILIES[family](g, shape, dtype).double().abs() * n.sign

    return draw


def _magnitudes(
    g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Even in the logarithm, half of them from the least normal number to the largest, half from
    USUAL on."""
    low, high = math.log2(torch.finfo(dtype).tiny), math.log2(numbers.largest)
    lows = torch.where(torch.randint(2, shape, generator=g) == 0, low, math.log2(USUAL))
    exponents = torch.rand(shape, generator=g, dtype=torch.float64) * (high - lows) + lows
    return torch.exp2(exponents) * numbers.sign


def _row_magnitudes(
    g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Each row has a scale of its own, even in the logarithm: sums and norms of rows see all."""
    scales = _magnitudes(g, (*shape[:-1], 1), dtype, numbers)
    return torch.randn(shape, generator=g).double().abs() * scales / 4


def _shifted(
    g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Normal numbers beside a large one, which all arguments of a case share."""
    return torch.randn(shape, generator=g).double() + numbers.shift


def _zeros(g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers) -> torch.Tensor:
    """Rows of zeros of either sign, and rows in which every fourth number is one."""
    drawn = torch.randn(shape, generator=g).double()
    zero = torch.where(torch.randint(2, shape, generator=g) == 0, 0.0, -0.0).double()
    kind = torch.randint(4, (*shape[:-1], 1), generator=g).expand(shape)
    some = torch.where(torch.randint(4, shape, generator=g) == 0, zero, drawn)
    rows = torch.where(kind == 0, torch.zeros(()).double(), -torch.zeros(()).double())
    return torch.where(kind < 2, rows, torch.where(kind == 2, zero, some))


def _mixed_rows(
    g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Normal rows, and one in MIXED_ONE_IN of another family, those of MIXED by turns: what is
    wrong for such numbers only on a kernel's path for large calls shows beside all else."""
    drawn = torch.randn(shape, generator=g).double()
    if not drawn.numel():
        return drawn
    rows = drawn.reshape(-1, shape[-1] if shape else 1)
    others = (torch.randint(MIXED_ONE_IN, (len(rows),), generator=g) == 0).nonzero().flatten()
    turn = int(torch.randint(len(MIXED), (1,), generator=g))
    for number, family in enumerate(MIXED):
        mine = others[(number + turn) % len(MIXED) :: len(MIXED)]
        if len(mine):
            some = draw_argument(family, g, (len(mine), rows.shape[1]), dtype, numbers)
            rows[mine] = some.double()
    return rows.reshape(shape)


def _bounded_special(
    g: torch.Generator, shape: Shape, dtype: torch.dtype, numbers: Numbers
) -> torch.Tensor:
    """Draws special values as the family `special` does, but the greatest number is the argument's,
    and none is so small that half of it is flushed to zero: zero times infinity is NaN."""
    drawn = _special(g, shape, dtype).double()
    drawn = torch.where((drawn != 0) & (drawn.abs() < USUAL), drawn.sign() * USUAL, drawn)
    greatest = drawn.isfinite() & (drawn.abs() > HEAVIEST)
    return torch.where(greatest, drawn.sign() * numbers.largest, drawn)


_OF_ARGUMENTS: dict[AnyFamily, DrawArgument] = {
    "large": _one_sign("large"),
    "heavy_tail": _one_sign("heavy_tail"),
    "special": _bounded_special,
    "magnitudes": _magnitudes,
    "row_magnitudes": _row_magnitudes,
    "shifted": _shifted,
    "zeros": _zeros,
    "mixed_rows": _mixed_rows,
}


def legal(arg: Arg, drawn: torch.Tensor) -> torch.Tensor:
    """What was drawn for a float argument, with the values replaced that its `values` excludes: NaN
    by negative infinity where that is legal, else by zero; infinities by the greatest legal number
    of their sign."""
    domain = arg.value_domain
    if domain == "any" or not arg.values or not drawn.is_floating_point():
        return drawn
    most = min(arg.largest or math.inf, torch.finfo(drawn.dtype).max)
    low, high = arg.range or (-most, most)
    minus = -math.inf if domain in ("minus_inf", "no_nan") else low
    plus = math.inf if domain == "no_nan" else high
    nan = -math.inf if domain != "finite" else min(max(0.0, low), high)
    return drawn.double().nan_to_num(nan=nan, posinf=plus, neginf=minus).to(drawn.dtype)


def without_small(arg: Arg, drawn: torch.Tensor) -> torch.Tensor:
    """Returns the numbers of an argument, any shape and dtype, with zeros in the place of those
    that are smaller in magnitude than its `smallest`; as they are where it states none."""
    if arg.smallest is None:
        return drawn
    return drawn.masked_fill(drawn.double().abs() < arg.smallest, 0.0)
