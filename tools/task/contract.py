"""What a contract says of a launcher's parameters: tensors, dims and scalars; and tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, Value

Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
Extent = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\*[a-z0-9_]+)*$")]
"""A product of dims and integers: "tokens", "2*d"."""


class Arg(Value):
    """A tensor that the launcher takes, in upstream's order; its last dim is contiguous."""

    name: Name
    dtype: Literal["T", "float32"]
    """ "T" is the dtype of the case."""
    shape: tuple[Extent, ...] = Field(min_length=1)
    access: Literal["read", "write", "readwrite"]
    strided: bool = False
    """Rows may lie apart: the launcher takes `<name>_stride`, in elements."""
    min_alignment_bytes: int = Field(default=16, ge=1, le=256)
    """A caller may pass any address that is a multiple of this and of the element's size."""
    largest: float | None = Field(default=None, gt=0, le=3e38)
    """Every number of at most this magnitude is legal here, besides NaN and infinities: drawn cases
    give the argument values of their own. None: only such values as reference.py draws."""

    @property
    def written(self) -> bool:
        return self.access != "read"

    @property
    def read(self) -> bool:
        return self.access != "write"

    def dtype_of(self, case: Case) -> DTypeName:
        return case.dtype if self.dtype == "T" else self.dtype

    def shape_of(self, case: Case) -> tuple[int, ...]:
        return tuple(product(extent, case.dims) for extent in self.shape)

    def stride_of(self, case: Case) -> int:
        """Elements from one row to the next."""
        pad = case.pads.get(self.name, case.pad) if self.strided else 0
        return self.shape_of(case)[-1] + pad

    def shift_of(self, case: Case) -> int:
        """Bytes from a multiple of 256 to the first element."""
        offset = case.offsets.get(self.name, case.offset)
        return offset * math.lcm(self.min_alignment_bytes, ITEM_BYTES[self.dtype_of(case)])

    def bytes_of(self, case: Case) -> int:
        count = 1
        for extent in self.shape_of(case):
            count *= extent
        return count * ITEM_BYTES[self.dtype_of(case)]


class Dim(Value):
    """The legal values of one dim."""

    min: int = Field(ge=0)
    max: int = Field(ge=1)
    multiple_of_bytes: int = Field(default=1, ge=1)
    """A row of this many elements fills whole units of this many bytes: 16 for 128-bit vectors."""

    def step(self, dtype: DTypeName) -> int:
        return max(1, self.multiple_of_bytes // ITEM_BYTES[dtype])


class Scalar(Value):
    """A scalar argument of the launcher, after the dims."""

    name: Name
    type: Literal["float", "int64_t"]
    value: float
    """What callers usually give: of all cases that a task lists."""
    others: tuple[float, ...] = ()
    """Values of hidden cases, beside it: who knows the usual one hard-coded is wrong there. A
    reference.py finds the value of a case under the scalar's name among its inputs."""
    range: tuple[float, float] | None = None
    """Least and greatest legal value: hidden cases have any between them."""

    @model_validator(mode="after")
    def _in_range(self) -> Scalar:
        if self.range and not all(map(self.allows, (self.value, *self.others))):
            raise ValueError(f"{self.name}: a value lies outside its range")
        return self

    @property
    def varies(self) -> bool:
        return bool(self.others or self.range)

    def allows(self, value: float) -> bool:
        """Whether a caller may give this value."""
        return self.range is None or self.range[0] <= value <= self.range[1]

    def value_in(self, case: Case) -> float:
        return case.scalars.get(self.name, self.value)


class Tolerance(Value):
    """|got - expected| <= atol + rtol |expected|, expected in float64."""

    rtol: float = Field(ge=0)
    atol: float = Field(ge=0)


def product(extent: str, dims: Mapping[str, int]) -> int:
    """Value of "2*d" for given dims."""
    value = 1
    for factor in extent.split("*"):
        value *= int(factor) if factor.isdecimal() else dims[factor]
    return value
