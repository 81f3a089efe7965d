"""The roles' standing instructions, as Markdown files beside this one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.agents.turns import RoleName


@cache
def instructions(role: RoleName) -> str:
    """What a role is told in every turn, the shared part first."""
    own = ("single", "planner", "coder", "fixer") if role == "single" else (role,)
    rules = ["kernel_rules"] if {"coder", "fixer"}.intersection(own) else []
    return "\n".join(_read(f"{name}.md") for name in ("everyone", *own, *rules))


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
