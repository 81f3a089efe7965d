"""The position of a turn in the chat: the last line of its prompt, and read from a prompt again."""

from __future__ import annotations

import re

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import Position, RoleName


def position_of(role: RoleName, state: RunState) -> Position:
    """The position of a role's next turn, as the last line of its prompt states it."""
    acting = acts_as(role, state)
    position = state.position(acting)
    if role != "single" or acting == "single":
        return position
    attempt = {"planner": 0, "coder": 1}.get(acting, position.attempt + 1)
    return Position(round=position.round, attempt=attempt)


def position_line(position: Position) -> str:
    """The last line of every prompt: its position in the chat."""
    return f"Turn: round {position.round}, attempt {position.attempt}."


def read_position(prompt: str) -> Position | None:
    """The position in the chat that a prompt states; None if it states none."""
    numbers = re.findall(r"^Turn: round (\d+), attempt (\d+)\.$", prompt, re.MULTILINE)
    return Position(round=int(numbers[-1][0]), attempt=int(numbers[-1][1])) if numbers else None
