"""The roles' standing instructions, as Markdown files beside this one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.agents.turns import RoleName
from astra_chat.tools.types import Basis

SHARED: dict[str, set[RoleName]] = {
    "metrics": {"planner", "coder", "profiler"},
    "kernel_rules": {"planner", "coder", "fixer"},
}
"""Texts that several roles are told, with these roles."""


@cache
def instructions(role: RoleName, basis: Basis = "estimated") -> str:
    """What a role is told in every turn, the shared part first; `basis`: of the times it sees."""
    own = ("single", "planner", "coder", "fixer") if role == "single" else (role,)
    shared = [name for name, roles in SHARED.items() if roles.intersection(own)]
    measured = {"metrics": "metrics_measured"} if basis == "measured" else {}
    names = ("everyone", *own, *shared)
    return "\n".join(_read(f"{measured.get(name, name)}.md") for name in names)


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
