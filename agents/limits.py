"""How long a chat may continue."""

from __future__ import annotations

from astra_chat.tools.types import Value


class Limits(Value):
    """Of one run; recorded with its options."""

    rounds: int = 5
    repairs: int = 2
    """Kernels of the fixer in one round."""
    confirmations: int = 3
    """Winners that are evaluated once more at the end, the next best where one does not hold; 0 in
    runs from before there were any."""
    mutants: int = 0
    """Seeded bugs of the baseline by which the tester's cases are scored; 0: they are not."""
    stop_at_percent: float | None = None
    """The chat ends once the best candidate reaches this share of the physical limit."""
    approval: bool = True
    """A human who wanted to be asked is asked; False once that was switched off."""
    patience: int | None = None
    """The chat ends after this many rounds in a row without a new best."""
