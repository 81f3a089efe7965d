"""Numbers that a candidate knows by heart, as an evaluation records them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from astra_chat.tools.case import Planted, Value, is_empty

MOST = 256
"""Numbers of a list."""
Size = Annotated[int, Field(ge=1, lt=2**40)]
Rest = tuple[Annotated[int, Field(ge=0, lt=2**40)], Annotated[int, Field(ge=2, lt=2**40)]]
"""A rest, and what was divided by."""
Bits = Annotated[int, Field(ge=0, lt=2**64)]


class KnownNumbers(Value):
    """Constants in a candidate's comparisons; each list begins with the most informative ones."""

    sizes: tuple[Size, ...] = Field(default=(), max_length=MOST, exclude_if=is_empty)
    """Possible extents, strides and indices, each also minus one and plus one."""
    rests: tuple[Rest, ...] = Field(default=(), max_length=MOST, exclude_if=is_empty)
    """Sizes that leave this remainder when divided."""
    values: tuple[Planted, ...] = Field(default=(), max_length=MOST, exclude_if=is_empty)
    """Possible values of elements and of scalars."""
    bits: tuple[Bits, ...] = Field(default=(), max_length=MOST, exclude_if=is_empty)
    """Numbers that may be the bit pattern of a value, or of several small values in one word."""

    def __bool__(self) -> bool:
        return bool(self.sizes or self.rests or self.values or self.bits)


NOTHING_KNOWN = KnownNumbers()
