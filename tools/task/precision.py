"""How far from the nearest value a result may lie: what [precision] of task.toml says.

A result of 16 bits or less has to be the nearest value of its dtype, except where the exact result
lies so near the midpoint of two of them that float32's own roundings decide. How near, the band, is
a number of float32 roundings of the absolute sum of the element's terms (`terms` of reference.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from astra_chat.tools.task.expressions import Extent, evaluate
from astra_chat.tools.types import Value

FLOAT32_ROUNDING = 2.0**-24
"""The largest relative error of one rounding to float32."""
ROUNDINGS = 32.0
"""Float32 roundings a term passes through, in the worst case and fast maths included: an
exponential of 2 ulps, a division of 2, some products. Below 1/128 ulp of a float16."""
SUMMAND_ROUNDINGS = 4.0
"""Times the root of the number of summands: rounding errors of a sum add up like a random walk."""
OPERAND_ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "tfloat32": 2.0**-11}
"""The largest relative error of one rounding to what tensor cores take."""
LEAST_NORMAL = 2.0**-126
"""The least number of float32 that is not denormal."""
FLUSHED = 2.0**-124
"""Results that fast maths may take for zero, whatever their terms."""


class Precision(Value):
    """The roundings that a right kernel may make on the way to a result."""

    roundings: float = Field(default=ROUNDINGS, gt=0, le=2**20)
    """In float32, each of at most 2^-24 of the absolute sum of the terms."""
    summands: Extent = "1"
    """So many terms are added up, one after the other or in any other order."""
    rounded_terms: Literal["bfloat16", "float16", "tfloat32"] | None = None
    """Each term may be rounded to this dtype once: tensor cores take their operands so."""
    intermediate: str = ""
    """What may be rounded to its dtype once, in words; `rounded` of reference.py gives the results
    of a kernel that does. Both results are right."""
    reason: str = ""
    """Why more is allowed than usual."""

    @model_validator(mode="after")
    def _reasoned(self) -> Precision:
        wider = self.roundings > ROUNDINGS or self.rounded_terms or self.intermediate
        if wider and not self.reason.strip():
            raise ValueError('a band wider than the default requires a reason = "..."')
        return self

    def factor(self, names: Mapping[str, int]) -> float:
        """Width of the band on either side of a midpoint, over the absolute sum of the terms.
        `names`: what the names in `summands` stand for."""
        count = max(1, evaluate(self.summands, names))
        of_sum = SUMMAND_ROUNDINGS * math.sqrt(count) if count > 1 else 0.0
        of_terms = OPERAND_ROUNDING[self.rounded_terms] if self.rounded_terms else 0.0
        return (self.roundings + of_sum) * FLOAT32_ROUNDING + of_terms

    @property
    def text(self) -> str:
        """The band's half width as a product with S, the absolute sum of the terms."""
        words = f"{self.roundings:g}"
        if self.summands != "1":
            words = f"({words} + {SUMMAND_ROUNDINGS:g} sqrt({self.summands}))"
        words += " * 2^-24"
        if self.rounded_terms:  # each term is rounded once
            words = f"({words} + {OPERAND_ROUNDING[self.rounded_terms]:g})"
        return f"{words} * S"
