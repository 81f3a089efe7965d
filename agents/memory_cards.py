"""Cards of a user's memory: what plans of confirmed runs brought, and when a planner sees them.

The request of a run holds the cards that may matter for its task, so a transcript holds all that
its prompts show. A planner sees them from the second round on, after ideas of its own. They decide
nothing and filter nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from astra_chat.tools.language import Language
from astra_chat.tools.text import one_line
from astra_chat.tools.types import NOT_PROFILED, Basis, Value
from astra_chat.tools.wording import counted

MOST_SHOWN, MOST_FAILED = 6, 2
MOST_CHARACTERS = 300
"""Characters of a card's text in a prompt; a file holds more."""

Text = Annotated[str, Field(max_length=2000)]
TaskClass = Literal["matrix_product", "indexed", "reduction", "elementwise"]
"""matrix_product: many operations for each byte; indexed: an argument contains indices into
another; reduction: results are much smaller than what is read; elementwise: all others."""


class MemoryCard(Value):
    """One plan of a run whose winner was confirmed."""

    technique: Text
    """The plan's title."""
    change: Text = ""
    outcome: Literal["kept", "failed"]
    """kept: the plan led to the confirmed winner; failed: none of its kernels did."""
    why: Text = ""
    """Why it failed, if it did."""
    task: Text
    task_class: TaskClass
    bottleneck: Text
    """What limited the kernel that the plan changed: the signature."""
    predicted: float = Field(gt=0, le=1e9)
    """Speedup over its parent that the plan predicted."""
    found: float | None = Field(default=None, gt=0, le=1e9)
    """Speedup over its parent; None: no kernel of the plan was timed."""
    low: float | None = Field(default=None, gt=0, le=1e9)
    high: float | None = Field(default=None, gt=0, le=1e9)
    """Interval of `found`."""
    confirmed: float = Field(gt=0, le=1e9)
    """Confirmed speedup of the run's winner over its baseline."""
    confirmed_low: float = Field(gt=0, le=1e9)
    confirmed_high: float = Field(gt=0, le=1e9)
    basis: Basis
    gpu: Text
    language: Language = Field(default="cuda", exclude_if=lambda language: language == "cuda")
    """Language of the plan's fastest kernel."""
    runs: tuple[Text, ...] = Field(min_length=1)
    """Names of the runs that found it; every run after the first reproduced it."""

    @property
    def text(self) -> str:
        """The card as one line of a prompt or of a list."""
        about = f"{self.technique}: {self.change}" if self.change else self.technique
        gain = "not timed" if self.found is None else f"{self.basis} {self.found:.2f}x"
        if self.found and self.low and self.high:
            gain += f" ({self.low:.2f} to {self.high:.2f})"
        why = one_line(self.why)[:MOST_CHARACTERS]
        failed = f"failed: {why}; " if self.outcome == "failed" else ""
        times = len(self.runs) - 1
        again = f", reproduced {counted(times, 'time')}" if times else ""
        limited = "" if self.bottleneck == NOT_PROFILED else "bottleneck "
        return (
            f"{one_line(about)[:MOST_CHARACTERS]} [{failed}over its parent {gain}, predicted"
            f" {self.predicted:.2f}x; {one_line(self.task)}, {self.task_class},"
            f" {limited}{one_line(self.bottleneck)}, {one_line(self.gpu)}"
            f"{', in Triton' * (self.language == 'triton')}{again}]"
        )


def matching(
    cards: tuple[MemoryCard, ...], bottleneck: str | None, basis: Basis | None
) -> list[MemoryCard]:
    """The cards to show: of this bottleneck before others, of the same kind of times before others,
    what was reproduced more often, then what gained more. A few of them failed."""
    ranked = sorted(
        cards,
        key=lambda card: (
            card.bottleneck != bottleneck,
            card.basis != basis,
            -len(card.runs),
            -(card.found or 0.0),
        ),
    )
    failed = [card for card in ranked if card.outcome == "failed"][:MOST_FAILED]
    kept = [card for card in ranked if card.outcome == "kept"][: MOST_SHOWN - len(failed)]
    return kept + failed
