"""The judge's report on a candidate, as models and readers get it.

results_text         outcome, all timed cases, and metrics under names that a plan can cite
prices               what bytes, launches, chains and operations cost, to reckon with
source_lines         what lines of a kernel cost its longest warp
metrics.md           what the names mean; metrics_measured.md: where a GPU measured
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.tools.types import Basis


@cache
def meaning_of_metrics(basis: Basis) -> str:
    """Returns what the names in a report mean, where its times have this basis."""
    name = "metrics_measured.md" if basis == "measured" else "metrics.md"
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
