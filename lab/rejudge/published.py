"""A published pair: a problem, and somebody's candidate for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class PublishedPair:
    """Texts of two Python files.

    The problem has `class Model`, get_inputs() and get_init_inputs(). It may have, besides,
    SIZES with use_size(size), get_other_values(inputs) and TOLERANCE, of a result's usual size:
    what its authors check with (tools/walled/inside/exact.py).
    """

    name: str
    problem: str
    candidate: str
    """`class ModelNew`."""
    claim: dict[str, Any] = field(default_factory=dict)
    """Times faster than eager, compile or a graph, or milliseconds, by its authors, and where they
    say so."""
    left_out: str = ""
    """Why it cannot be judged."""
    notes: tuple[str, ...] = ()
    """What is said of it in its row."""
