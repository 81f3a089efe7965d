"""What a contract says of a launcher's parameters: tensors, dims and scalars; and tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, model_validator

from astra_chat.tools.dtypes import UNSIGNED_POWERS
from astra_chat.tools.task.expressions import Extent, evaluate
from astra_chat.tools.types import DTYPES, ITEM_BYTES, Case, DTypeName, Value, is_float

Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]


class Index(Value):
    """The legal values of an argument of integers that says where something lies."""

    start: Extent = Field(default="0", validation_alias=AliasChoices("from", "start"))
    below: Extent
    """Every number from `start` to below this is legal."""
    kind: Literal["any", "sorted", "permutation", "distinct", "positions", "slots", "lengths"] = (
        "any"
    )
    """sorted: each row ascends; permutation: each row holds every number of its length once, from
    `start` on; distinct: no number twice in a row; positions: each row is of runs that count up;
    slots: no number twice; lengths: how many entries of each row of another argument count."""
    none: int | None = None
    """What stands for "no entry"."""
    none_share: float = Field(default=0.25, gt=0, lt=1)
    """Share of the drawn entries that hold `none`."""
    table: Name | None = None
    """The argument that is indexed: `below` may not exceed its extent."""
    table_axes: int = Field(default=1, ge=1)
    """So many leading extents of the table are indexed as one. No length is more than the extent
    behind them."""

    def bounds(self, names: Mapping[str, int]) -> tuple[int, int]:
        """The least legal number, and the one after the greatest."""
        return evaluate(self.start, names), evaluate(self.below, names)


Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9_]*$")]
"""A type variable: "T", "Q"."""
Stride = Literal["free"] | Extent
Access = Literal["read", "write", "readwrite", "workspace"]
INTEGERS: dict[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7 - 1),
    "uint8": (0, 2**8 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
"""The least and the greatest number of each integer dtype."""
ValueDomain = Literal["any", "no_nan", "minus_inf", "finite"]
"""Legal values beside finite numbers: all, both infinities, negative infinity (masks), or none."""
JudgedBy = Literal["close", "exact", "quantized", "accept", "distribution"]
Bound = Annotated[float, Field(ge=-3e38, le=3e38)]
MEASURED: tuple[JudgedBy, ...] = ("close", "quantized")
"""Results that have an error, which is held against the baseline's own."""


class Tolerance(Value):
    """|got - expected| <= atol + rtol |expected|, expected in float64."""

    rtol: float = Field(ge=0)
    atol: float = Field(ge=0)


class Judged(Value):
    """How a written argument is judged, where it is not by its dtype."""

    by: JudgedBy
    scale: Name | None = None
    """quantized: the argument of the scales."""
    group: tuple[Extent, ...] = ()
    """quantized: extents of the block of codes that shares a scale."""
    off_by_one: float = Field(default=0.01, ge=0, le=1)
    """quantized: the share of codes that may be a step off."""
    probabilities: Name | None = None
    """distribution: the argument of what the probabilities come from, [..., vocabulary]. They
    themselves are what reference.py gives."""


def names_in(case: Case, usual_scalars: Mapping[str, int]) -> dict[str, int]:
    """What the names in a contract's expressions stand for: dims, and integer scalars, of which the
    case may give other values than the usual ones."""
    if not usual_scalars:  # drawing cases asks for these half a million times
        return dict(case.dims)
    given = {
        name: int(value)
        for name, value in case.scalars.items()
        if name in usual_scalars and math.isfinite(value)
    }
    return {**usual_scalars, **given, **case.dims}


@lru_cache(maxsize=1024)
def _free_axes(strides: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, stride in enumerate(strides) if stride == "free")


class Arg(Value):
    """A tensor that the launcher takes, in upstream's order."""

    name: Name
    dtype: DTypeName | Variable
    """A dtype, or a type variable: "T" is the dtype of the case."""
    shape: tuple[Extent, ...] = Field(min_length=1)
    access: Access
    """A workspace is the caller's memory: what it holds before and after is not specified."""
    strides: tuple[Stride, ...] | None = None
    """Elements from one entry of an axis to the next: an expression, or "free", which is the
    caller's to choose: the launcher takes it. None: contiguous."""
    stride_alignment_bytes: int = Field(default=1, ge=1, le=2**20)
    """Every free stride is a multiple of this: what a caller's vectors need."""
    min_alignment_bytes: int = Field(
        default=16,
        ge=1,
        le=256,
        validation_alias=AliasChoices("alignment_bytes", "min_alignment_bytes"),
    )
    """A caller may pass any address that is a multiple of this and of the element's size."""
    largest: float | None = Field(default=None, gt=0, le=3e38)
    """Every number of at most this magnitude is legal here, besides what `values` says: drawn cases
    give the argument values of their own. None: only such values as reference.py draws."""
    smallest: float | None = Field(default=None, gt=0, le=1)
    """Numbers of a smaller magnitude, other than zero, are not legal: they are drawn as zeros. For
    arguments of kernels that may take denormal numbers for zero or not."""
    range: tuple[Bound, Bound] | None = None
    """Every number between these two ends, both included, is legal here, and of NaN and infinities
    only what `values` names: drawn cases give the argument values of their own."""
    values: ValueDomain | None = None
    """Values beside finite numbers that are legal in floats that are read. None: any, or with
    `range` none."""
    index: Index | None = None
    """Legal values of an argument of integers that holds places in another; the judge draws
    them."""
    weight: bool = False  # it holds the same in every call, see run/launch_plans.py
    optional: bool = False
    """A caller may pass a null pointer."""
    judged: Judged | None = None
    tolerance: Tolerance | None = None
    """Tolerance in the place of the task's for the dtype."""
    usual_scalars: dict[str, int] = Field(default_factory=dict, exclude=True, repr=False)
    """What integer scalars are where a case says nothing: for extents that name them."""

    @model_validator(mode="before")
    @classmethod
    def _row_stride(cls, raw: Any) -> Any:
        """Schema 1: `strided` says that rows may lie apart."""
        if not isinstance(raw, dict) or "strided" not in raw:
            return raw
        fields = {key: value for key, value in raw.items() if key != "strided"}
        if not isinstance(raw["strided"], bool):
            raise ValueError("strided must be true or false")
        if raw["strided"]:
            if "strides" in fields:
                raise ValueError("strided and strides are both given: keep only strides")
            fields["strides"] = ["free", "1"]
        return fields

    @property
    def written(self) -> bool:
        """Whether it is a result, which is compared."""
        return self.access in ("write", "readwrite")

    @property
    def read(self) -> bool:
        """Whether it holds an input before the call."""
        return self.access in ("read", "readwrite")

    @property
    def constant(self) -> bool:
        """Whether it may only be read: a kernel may not write to it."""
        return self.access == "read"

    @property
    def has_families(self) -> bool:
        """Whether drawn cases may give it a value family of its own."""
        return self.read and (self.largest is not None or self.range is not None)

    @property
    def value_domain(self) -> ValueDomain:
        """Which values beside finite numbers are legal."""
        return self.values or ("finite" if self.range is not None else "any")

    @property
    def has_special(self) -> bool:
        """Whether drawn cases may give it special values of its own."""
        return self.has_families and self.value_domain != "finite"

    def may_hold(self, number: float) -> bool:
        """Whether a finite number is legal here, as far as the contract says so. An argument of
        which it says nothing holds such numbers as reference.py draws."""
        if self.smallest is not None and 0 < abs(number) < self.smallest:
            return False
        if self.range is not None:
            return self.range[0] <= number <= self.range[1]
        return self.largest is None or abs(number) <= self.largest

    @property
    def free_axes(self) -> tuple[int, ...]:
        """Axes whose stride is the caller's to choose."""
        return _free_axes(self.strides) if self.strides else ()

    @property
    def strided(self) -> bool:
        return bool(self.free_axes)

    @property
    def stride_names(self) -> tuple[str, ...]:
        """The launcher's parameters for its free strides."""
        axes = self.free_axes
        if len(axes) == 1:
            return (f"{self.name}_stride",)
        return tuple(f"{self.name}_stride_{axis}" for axis in axes)

    def names_in(self, case: Case) -> dict[str, int]:
        """What the names in its expressions stand for."""
        return names_in(case, self.usual_scalars)

    def present(self, case: Case) -> bool:
        """Whether the caller passes it, rather than a null pointer."""
        return self.name not in case.absent

    def dtype_of(self, case: Case) -> DTypeName:
        if self.dtype in DTYPES:
            return self.dtype
        return case.types.get(self.dtype, case.dtype)

    def shape_of(self, case: Case) -> tuple[int, ...]:
        """Returns the extents in a case; an absent argument has no element: its first extent is
        0."""
        names = self.names_in(case)
        shape = tuple([evaluate(extent, names) for extent in self.shape])
        return shape if self.present(case) else (0, *shape[1:])

    def strides_of(self, case: Case) -> tuple[int, ...]:
        """Elements from one entry of each axis to the next."""
        return self.layout_of(case)[1]

    def layout_of(self, case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns the extents and the strides, both in elements."""
        shape, names, step = self.shape_of(case), self.names_in(case), self.stride_step(case)
        given = self.strides or ("",) * len(shape)
        pads = list(self.pads_of(case))
        strides: list[int] = []
        dense = 1
        for extent, stride in zip(reversed(shape), reversed(given), strict=True):
            if stride == "free":
                strides.append(-(-(dense + pads.pop()) // step) * step)
            else:
                strides.append(evaluate(stride, names) if stride else dense)
            dense = max(dense, strides[-1] * extent)
        return shape, tuple(reversed(strides))

    def stride_step(self, case: Case) -> int:
        """Elements of which each free stride is a multiple."""
        item = ITEM_BYTES[self.dtype_of(case)]
        return math.lcm(self.stride_alignment_bytes, item) // item

    def free_strides_of(self, case: Case) -> tuple[int, ...]:
        """Returns the free strides that the launcher takes, in elements."""
        strides = self.strides_of(case) if self.strides else ()
        return tuple(strides[axis] for axis in self.free_axes)

    def pads_of(self, case: Case) -> tuple[int, ...]:
        """Returns by how many elements each free stride exceeds the least, before it is rounded
        up."""
        pads = case.pads.get(self.name, case.pad)
        return (pads,) * len(self.free_axes) if isinstance(pads, int) else pads

    def stride_of(self, case: Case) -> int:
        """Elements from one row to the next, of an argument with two axes."""
        shape = self.shape_of(case)
        return self.strides_of(case)[-2] if len(shape) > 1 else shape[-1]

    def shift_of(self, case: Case) -> int:
        """Bytes from a multiple of 256 to the first element."""
        offset = case.offsets.get(self.name, case.offset)
        return offset * math.lcm(self.min_alignment_bytes, ITEM_BYTES[self.dtype_of(case)])

    def bytes_of(self, case: Case) -> int:
        """Returns the bytes of its elements, without what lies between them."""
        return math.prod(self.shape_of(case)) * ITEM_BYTES[self.dtype_of(case)]

    def judged_by(self, case: Case) -> JudgedBy:
        """The kind of comparison with the oracle."""
        if self.judged:
            return self.judged.by
        dtype = self.dtype_of(case)
        return "close" if is_float(dtype) and dtype != UNSIGNED_POWERS else "exact"


class Dim(Value):
    """The legal values of one dim."""

    min: int = Field(ge=0, lt=2**63)
    max: int = Field(ge=1, lt=2**63)
    multiple_of: int = Field(default=1, ge=1)
    multiple_of_bytes: int = Field(default=1, ge=1)
    """A row of this many elements fills whole units of this many bytes: 16 for 128-bit vectors."""
    values: tuple[int, ...] = ()
    """Only these extents are legal, ascending; none: all from `min` to `max`."""

    @model_validator(mode="before")
    @classmethod
    def _of_values(cls, raw: Any) -> Any:
        values = raw.get("values") if isinstance(raw, dict) else None
        if not isinstance(values, list | tuple) or not values:
            return raw
        if not all(isinstance(value, int) for value in values):
            raise ValueError("values must be integers")
        return {"min": min(values), "max": max(values), **raw, "values": sorted(set(values))}

    @model_validator(mode="after")
    def _some(self) -> Dim:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}")
        if self.max // self.multiple_of * self.multiple_of < self.min:
            raise ValueError(
                f"no multiple of {self.multiple_of} lies between {self.min} and {self.max}"
            )
        return self

    def step(self, dtype: DTypeName) -> int:
        """Legal extents are multiples of this."""
        return math.lcm(self.multiple_of, max(1, self.multiple_of_bytes // ITEM_BYTES[dtype]))

    def allows(self, extent: int, dtype: DTypeName) -> bool:
        listed = not self.values or extent in self.values
        return self.min <= extent <= self.max and not extent % self.step(dtype) and listed

    def above(self, extent: int, dtype: DTypeName) -> int:
        """The least legal extent of at least this, or the greatest of all."""
        below = self.nearest(extent, dtype)
        if below >= extent or not self.values:
            return below if below >= extent else self.nearest(below + self.step(dtype), dtype)
        legal = [value for value in self.values if self.allows(value, dtype)]
        return min((value for value in legal if value >= extent), default=below)

    def nearest(self, extent: int, dtype: DTypeName) -> int:
        """The greatest legal extent of at most this, or the least of all."""
        if self.values:
            legal = [value for value in self.values if self.allows(value, dtype)] or [self.min]
            return max((value for value in legal if value <= extent), default=legal[0])
        step = self.step(dtype)
        return max(min(extent, self.max) // step, -(-self.min // step)) * step


class Scalar(Value):
    """A scalar argument of the launcher, after the dims."""

    name: Name
    type: Literal["float", "int64_t", "bool"]
    value: float
    """What callers usually give: of all cases that a task lists."""
    others: tuple[float, ...] = ()
    """Values of hidden cases, beside it: who knows the usual one hard-coded is wrong there. A
    reference.py finds the value of a case under the scalar's name among its inputs."""
    values: tuple[float, ...] = ()
    """All values that a caller may give."""
    range: tuple[float, float] | None = None
    """Least and greatest legal value: hidden cases have any between them."""

    @model_validator(mode="after")
    def _in_range(self) -> Scalar:
        named = (self.value, *self.others, *self.values)
        if self.values and (self.range or self.others):
            raise ValueError(
                f"{self.name}: values must list all valid values: give no range and no others"
            )
        if self.type != "float" and not all(
            float(value).is_integer() and abs(value) <= 2**53
            for value in (*named, *(self.range or ()))
        ):
            raise ValueError(f"{self.name}: values of {self.type} must be integers up to 2^53")
        if not all(map(self.allows, named)):
            raise ValueError(
                f"{self.name}: a given number is outside range or not listed in values"
            )
        return self

    @property
    def varies(self) -> bool:
        return bool(self.others or self.range or len(set(self.values)) > 1)

    @property
    def named(self) -> tuple[float, ...]:
        """The usual value, and others that the contract names."""
        return tuple(dict.fromkeys((self.value, *self.others, *self.values)))

    def allows(self, value: float) -> bool:
        """Whether a caller may give this value."""
        if self.type != "float" and not float(value).is_integer():
            return False
        if self.values:
            return value in self.values
        if self.type == "bool":
            return value in (0, 1)
        return self.range is None or self.range[0] <= value <= self.range[1]

    def value_in(self, case: Case) -> float:
        return case.scalars.get(self.name, self.value)
