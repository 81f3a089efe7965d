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
    """Prompt tokens that the server read from its cache."""
    completion: Count = 0
    reasoning: Count = 0
    """Completion tokens spent on reasoning, which are not part of the reply."""
    estimated: Count = 0
    """Tokens that no server counted, estimated from the length of prompt and answer."""
    usd: Usd | None = 0.0
    """US dollars; None: the price of some answers is unknown."""

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
    """A reply of a live model, usable or not."""

    kind: Literal["model_call"] = "model_call"
    role: str
    """The role that asked; the selector is one, too."""
    model: str
    tokens: Tokens
    answered_by: str = ""
    """Who answered in a mailbox, as stated with the answer; empty: not stated, or no mailbox."""
    refused: Count = 0
    """Answers in a mailbox that were rejected before this one."""


class RoleSpent(Value):
    role: str
    answers: Count
    tokens: Tokens
    unusable: Count = 0
    """Answers that were sent back with a reason."""
    unusable_tokens: Tokens = Tokens()
    """Tokens of the answers that were sent back."""


class StepSpent(Value):
    step: StepName
    seconds: Seconds
    waited_s: Seconds = 0.0
    """Seconds in which the step waited for a GPU's lease, part of `seconds`."""


class Rejected(Value):
    reason: str
    """Outcome of a candidate, or another reason; transcript/ledger.py lists them."""
    times: Count


class TuningSpent(Value):
    """What the executor spent on constants that candidates marked."""

    candidates: Count
    """Candidates that were tuned."""
    changed: Count
    """Tuned candidates whose constants were changed."""
    points: Count
    """Points that the virtual GPU ranked."""
    measured: Count
    """Ranked points that a GPU measured; a budget counts each as an evaluation."""
    seconds: Seconds
    """Seconds of all tunings."""
    gpu_s: Seconds
    """Seconds in which a GPU measured, part of `seconds`; also counted in the run's gpu_s."""


class Spent(Value):
    """The ledger: totals up to here, earlier sessions included. The elapsed time is that of its
    record."""

    kind: Literal["spent"] = "spent"
    tokens: Tokens
    roles: tuple[RoleSpent, ...]
    evaluations: Count
    steps: tuple[StepSpent, ...]
    gpu_s: Seconds
    """Seconds in which evaluations held a real GPU's lease or tunings measured on one; in old
    transcripts, the seconds of evaluations' GPU steps, including the wait."""
    gpu_wait_s: Seconds = 0.0
    """Seconds in which evaluations waited for a real GPU's lease."""
    energy_j: Annotated[float, Field(ge=0)] | None = None
    """Energy in joules that real GPUs used while evaluations held them, according to NVML; None:
    not reported."""
    gpu_busy: Annotated[float, Field(ge=0, le=1)] | None = None
    """NVML's mean utilization of real GPUs while evaluations held them, 0 to 1; None: not
    reported."""
    rejected: tuple[Rejected, ...]
    tuning: TuningSpent | None = Field(default=None, exclude_if=lambda one: one is None)
    """None if nothing was tuned."""
    contradictions: Count = 0
    """Turns that were accepted although they contradict the facts."""

    @property
    def runs(self) -> int:
        """What counts against a budget of evaluations."""
        return self.evaluations + (self.tuning.measured if self.tuning else 0)

    @property
    def unusable_tokens(self) -> Tokens:
        """Tokens of all roles' answers that were sent back."""
        return sum((role.unusable_tokens for role in self.roles), Tokens())
