"""A case: one call of a task, as figures; and the base of all values."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler

from astra_chat.tools.dtypes import DTypeName

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

ValueFamily = Literal[
    "normal", "large", "tiny", "denormal", "ramp", "one_hot", "special", "heavy_tail", "binary"
]
AnyFamily = ValueFamily | Literal["magnitudes", "row_magnitudes", "shifted", "zeros", "mixed_rows"]
"""Families of single arguments: those that a tester may ask for too, and those that need to know
how large an argument may be (tools/runners/values.py)."""


class Value(BaseModel):
    """A frozen value; non-finite floats are written as the strings "NaN", "Infinity"."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Returns pydantic's schema, and in it the text below each field."""
        from astra_chat.tools.field_notes import field_notes

        found = handler(schema)
        fields = handler.resolve_ref_schema(found).get("properties", {})
        for name, note in field_notes(cls).items():
            if name in fields:
                fields[name].setdefault("description", note)
        return found


Packed = Literal["", "apart", "rows", "tensors", "neighbours", "same"]
"""How the arguments of a call lie to each other (tools/task/placement.py): each in a buffer of its
own; rows of those that a contract names as packed beside each other; these tensors one behind the
other; all arguments in allocations that follow each other; those that a contract names as the same
at one address. Empty: rows, where the strides are those of a packed buffer, else apart."""


PACKED_TEXT: dict[str, str] = {
    "apart": "not packed",
    "rows": "packed",
    "tensors": "one tensor directly after the other",
    "neighbours": "in neighbouring allocations",
    "same": "in place",
}


def is_empty(value: object) -> bool:
    """Whether a field is not written: a case reads as it did before the field was there."""
    return not value


SEED_BITS, USUAL_SEED_BITS = 48, 45
"""Bits of a drawn seed; bits of a seed of cases whose indices are as they usually are: timed ones,
and a task's own."""
LARGE_ROWS = 2**49
"""Bit of a seed, above those of a drawn one: some rows of special values hold one largest number or
one infinity, and no NaN, which would hide what becomes of it."""

ONE_PLACE = 2**50
"""Bit of a seed: all entries of an index that may be equal are, but for those of "no entry"."""


def large_sign(seed: int) -> float:
    """Sign of the large numbers of a case with this seed: 1.0 or -1.0."""
    return random.Random(seed).choice((1.0, -1.0))


Planted = Annotated[float, Field(allow_inf_nan=False)]
SHOWN = 3
"""Planted numbers of an argument that a label names."""


def _some(numbers: tuple[float, ...]) -> str:
    """ "7, 8.5, 9 and 4 more"."""
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return ", ".join(f"{number:.9g}" for number in numbers[:SHOWN]) + more


class Case(Value):
    """One call of a task: dims, dtype, value family and seed."""

    dims: dict[str, int]
    """Extent of every dim of the task, in the order of its contract."""
    dtype: DTypeName
    values: ValueFamily = "normal"
    families: dict[str, AnyFamily] = Field(default_factory=dict)
    """Value families of single arguments, by name, overriding what reference.py or `values`
    gives."""
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    pad: int = Field(default=0, ge=0)
    """Elements between the rows of every strided argument."""
    pads: dict[str, int | tuple[int, ...]] = Field(default_factory=dict)
    """Elements between the rows of single arguments, by name, overriding `pad`; or one number for
    each stride that the caller may choose, in order."""
    offset: int = Field(default=0, ge=0, le=63)
    """Every argument starts this many times its minimum alignment past a multiple of 256 bytes."""
    offsets: dict[str, Annotated[int, Field(ge=0, le=63)]] = Field(default_factory=dict)
    """Offsets of single arguments, by name, overriding `offset` and in the same unit."""
    scalars: dict[str, float] = Field(default_factory=dict)
    """Values of scalars, by name; those not listed have the contract's usual value."""
    types: dict[str, DTypeName] = Field(default_factory=dict, exclude_if=is_empty)
    """Dtypes of the type variables after the first, by name; the first is `dtype`."""
    absent: tuple[str, ...] = Field(default=(), exclude_if=is_empty)
    """Optional arguments that are null pointers."""
    packed: Packed = Field(default="", exclude_if=is_empty)
    """How arguments are placed relative to each other; empty: rows if the strides are those of a
    packed buffer, else apart."""
    rows_of: int = Field(default=0, ge=0, exclude_if=is_empty)
    """The rows are taken, in another order, from the call with this many rows and this seed
    (tools/task/batch_invariance.py); 0: the call has rows of its own."""
    rows_draw: int = Field(default=0, ge=0, exclude_if=is_empty)
    """Number of the draw of these rows."""
    planted: dict[str, tuple[Planted, ...]] = Field(default_factory=dict, exclude_if=is_empty)
    """Numbers that are planted among the drawn values of single arguments, by name: as whole rows,
    and as first, last and single elements (runners/oracle.py)."""

    @property
    def key(self) -> str:
        """All of the case as text: equal cases have equal keys."""
        return self.model_dump_json()

    @property
    def label(self) -> str:
        """Short text for tables: "16x4096 float16"."""
        return self._text("x".join(map(str, self.dims.values())))

    @property
    def named(self) -> str:
        """Text with the dims' names: "tokens=16 d=4096 float16"."""
        return self._text(" ".join(f"{name}={extent}" for name, extent in self.dims.items()))

    def _text(self, dims: str) -> str:
        words = [dims, self.dtype]
        words += (f"{variable}={dtype}" for variable, dtype in self.types.items())
        words += [self.values] * (self.values != "normal") + [f"pad {self.pad}"] * bool(self.pad)
        words += (f"{name}+{pad}".replace(", ", ",") for name, pad in self.pads.items())
        words += (f"{name}: {family}" for name, family in self.families.items())
        words += [f"offset {self.offset}"] * bool(self.offset)
        words += (f"{name} at {offset}" for name, offset in self.offsets.items())
        words += (f"without {name}" for name in self.absent)
        words += [PACKED_TEXT[self.packed]] if self.packed else []
        words += [f"some of {self.rows_of} rows"] * bool(self.rows_of)
        words += (f"{name} holds {_some(numbers)}" for name, numbers in self.planted.items())
        return " ".join([*words, *(f"{name}={value:g}" for name, value in self.scalars.items())])
