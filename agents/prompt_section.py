"""A section of a prompt, and what all prompts of a chat have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Basis


@dataclass(frozen=True)
class ChatContext:
    """What does not change during a chat."""

    task: Task
    baseline: str
    """Source of the baseline tier that candidates are compared with."""
    tier: str
    device: str
    basis: Basis = "estimated"
    """Whether the device's times are measured or estimated."""
    roles: tuple[RoleName, ...] = MODEL_ROLES
    """Roles that models play in this chat."""
    budget_left: Callable[[], str] = str
    """What is left of the budget, as text; "" without limits."""


@dataclass(frozen=True)
class Section:
    """A part of a prompt. Too long a prompt loses the highest `drop_rank` first, and never 0."""

    title: str
    text: str
    drop_rank: int = 0

    def __str__(self) -> str:
        return f"## {self.title}\n{self.text.rstrip()}\n"
