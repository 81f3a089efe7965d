"""The judge's report on a candidate, as models and readers get it.

results_text         outcome, all timed cases, and metrics under names that a plan can cite
prices               what bytes, launches, chains and operations cost, to reckon with
metrics.md           what the names mean; metrics_estimated.md and metrics_measured.md: for
                     times of that basis; metrics_counted.md: what the virtual GPU counts
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.tools.types import Basis


@cache
def meaning_of_metrics(basis: Basis) -> str:
    """Returns what the names in a report mean, where its times have this basis."""
    names = ("metrics.md", f"metrics_{basis}.md", "metrics_counted.md")
    return "".join(files(__name__).joinpath(name).read_text(encoding="utf-8") for name in names)
