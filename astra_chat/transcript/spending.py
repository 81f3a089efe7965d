"""What a run spent: an event for each answer of a live model, and the ledger at its end."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from astra_chat.tools.types import Seconds, StepName, Value

Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Usd: TypeAlias = Annotated[float, Field(ge=0, le=1e12)]


class Tokens(Value):
    """Tokens and their price; all fields add up."""

    prompt: Count = 0
    cached: Count = 0
    """Of the prompt's, those that the server had in its cache."""
    completion: Count = 0
    reasoning: Count = 0
    """Of the completion's, those that were thought and not said."""
    estimated: Count = 0
    """Of all, those that no server counted: by the characters of prompt and answer."""
    usd: Usd | None = 0.0
    """None: of some answers the price is not known."""

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: Tokens) -> Tokens:
        known = self.usd is not None and other.usd is not None
        return Tokens(
            prompt=self.prompt + other.prompt,
            cached=self.cached + other.cached,
            completion=self.completion + other.completion,
            reasoning=self.reasoning + other.reasoning,
            estimated=self.estimated + other.estimated,
            usd=(self.usd or 0.0) + (other.usd or 0.0) if known else None,
        )


class ModelCall(Value):
    """A live model answered, usably or not."""

    kind: Literal["model_call"] = "model_call"
    role: str
    """Who asked; the selector too."""
    model: str
    tokens: Tokens
    answered_by: str = ""
    """Of an answer from a mailbox: who gave it, as they say."""
    refused: Count = 0
    """Answers from there that were refused before this one."""


class RoleSpent(Value):
    role: str
    answers: Count
    tokens: Tokens
    unusable: Count = 0
    """Of the answers, those that were sent back as text."""
    unusable_tokens: Tokens = Tokens()


class StepSpent(Value):
    step: StepName
    seconds: Seconds
    waited_s: Seconds = 0.0
    """Of seconds, those in which it waited for a GPU's lease."""


class Rejected(Value):
    reason: str
    """Outcome of a candidate, or what else was wrong: transcript/ledger.py names it."""
    times: Count


class TuningSpent(Value):
    """What the executor spent on constants that candidates marked."""

    candidates: Count
    """That were tuned."""
    changed: Count
    """Of these, those whose constants were changed."""
    points: Count
    """That the virtual GPU ranked."""
    measured: Count
    """Of these, those that a GPU measured; a budget counts each as an evaluation."""
    seconds: Seconds
    gpu_s: Seconds
    """Of these, in which a GPU measured; in the run's gpu_s too."""


class Spent(Value):
    """The ledger: totals up to here, earlier sessions included. The time that
    passed is that of its record."""

    kind: Literal["spent"] = "spent"
    tokens: Tokens
    roles: tuple[RoleSpent, ...]
    evaluations: Count
    steps: tuple[StepSpent, ...]
    gpu_s: Seconds
    """In which evaluations held a real GPU's lease; in old transcripts their steps on one, with the
    wait for it."""
    gpu_wait_s: Seconds = 0.0
    """In which they waited for that lease."""
    energy_j: Annotated[float, Field(ge=0)] | None = None
    """Used by their GPUs while they held them, by NVML; None: it said nothing."""
    gpu_busy: Annotated[float, Field(ge=0, le=1)] | None = None
    """NVML's utilization of those GPUs while they held them; None: it said nothing."""
    rejected: tuple[Rejected, ...]
    tuning: TuningSpent | None = Field(default=None, exclude_if=lambda one: one is None)
    """None where nothing was tuned."""
    contradictions: Count = 0
    """Turns that were accepted although they contradict the facts."""

    @property
    def runs(self) -> int:
        """What counts against a budget of evaluations."""
        return self.evaluations + (self.tuning.measured if self.tuning else 0)

    @property
    def unusable_tokens(self) -> Tokens:
        """Of all roles."""
        return sum((role.unusable_tokens for role in self.roles), Tokens())
