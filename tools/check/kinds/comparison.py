"""What the comparison of single elements yields, whatever the judgement kind."""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.check.floats import Array


@dataclass(frozen=True)
class Comparison:
    """Comparison of values with the expected ones, element by element."""

    good: Array
    same_pattern: Array
    """NaN and infinity are where they belong."""
    share: Array
    """Error over the allowed error."""
    allowed: Array
    """Error that is allowed."""
    off: Array | None = None
    """Good elements of which only a share may be so: codes that are one step off."""
