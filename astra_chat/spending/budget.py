"""Limits on what a run may spend: --budget tokens=200000,usd=5,wall_s=3600,evaluations=40."""

from __future__ import annotations

from pydantic import Field, ValidationError

from astra_chat.tools.types import Value
from astra_chat.tools.wording import choices, invalid
from astra_chat.transcript.spending import Tokens
from astra_vgpu.ground.errors import BadInput


class BudgetSpent(Exception):
    """The next step would cost more than is left; its text says what is used up."""


class Budget(Value):
    """Limits on what a run may spend; None: no limit."""

    tokens: int | None = Field(None, gt=0)
    """Prompt and completion tokens of all roles."""
    usd: float | None = Field(None, gt=0)
    """US dollars for all model calls."""
    wall_s: float | None = Field(None, gt=0)
    """Seconds of all sessions together; the time between them does not count."""
    evaluations: int | None = Field(None, gt=0)
    """Candidates, and the baseline, that are run; the last is kept for the winner's confirmation
    (agents/limits.py)."""
    gpu_s: float | None = Field(None, gt=0)
    """Seconds of check, time and profile on a real GPU."""

    def left(self, tokens: Tokens, evaluations: int) -> str:
        """What the models of a run are told is left, after so much; times are left out, for they
        differ when a run is held again. "" where nothing of it is limited."""
        lines = []
        if self.tokens is not None:
            lines.append(f"{max(0, self.tokens - tokens.total):,} of {self.tokens:,} tokens")
        if self.usd is not None and tokens.usd is not None:
            lines.append(f"${max(0.0, self.usd - tokens.usd):.2f} of ${self.usd:.2f}")
        if self.evaluations is not None:
            left = max(0, self.evaluations - evaluations)
            kept = ", one of which is reserved for the winner's confirmation" if left else ""
            lines.append(f"{left} of {self.evaluations} evaluations{kept}")
        return ", ".join(lines)

    def __str__(self) -> str:
        given = self.model_dump(exclude_none=True)
        return ",".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in given.items()
        )


def parse_budget(words: str | None) -> Budget:
    """The words of --budget; "none" and no words limit nothing. Raises BadInput naming the part
    that is off."""
    given: dict[str, str] = {}
    for part in words.split(",") if words and words != "none" else ():
        name, equals, value = part.partition("=")
        if name not in Budget.model_fields:
            raise BadInput(
                f"--budget: there is no limit '{name}'{choices(name, Budget.model_fields)}"
            )
        if not equals or name in given:
            raise BadInput(f"--budget: '{part}': give each limit once, as {name}=NUMBER")
        given[name] = value
    try:
        return Budget.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        raise BadInput(f"--budget: {problem['loc'][0]}: {invalid(problem)}") from None
