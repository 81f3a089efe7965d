"""The roles' standing instructions, as Markdown files beside this one, and the coder's example."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.agents.turns import RoleName


@cache
def instructions(role: RoleName) -> str:
    """What a role is told in every turn, the shared part first."""
    own = ("single", "planner", "coder", "fixer") if role == "single" else (role,)
    return "\n".join([_read("everyone.md"), *(_read(f"{name}.md") for name in own)])


@cache
def example() -> str:
    """A small launcher of another operation, compiled by a test: how candidates look."""
    return _read("example.cu")


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
