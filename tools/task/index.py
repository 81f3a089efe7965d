"""What a contract says of an argument of integers that says where something lies, or how long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from astra_chat.tools.case import Value
from astra_chat.tools.task.expressions import Extent, evaluate

Name = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]


class Index(Value):
    """The legal values of an argument of integers that says where something lies."""

    start: Extent = Field(default="0", validation_alias=AliasChoices("from", "start"))
    below: Extent
    """Every number from `start` to below this is legal."""
    kind: Literal["any", "sorted", "permutation", "positions", "slots", "lengths"] = "any"
    """sorted: each row ascends; permutation: each row holds every number of its length once, from
    `start` on; positions: each row is of runs that count up; slots: no number twice; lengths: how
    many entries of each row of another argument count."""
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
