"""The roles' standing instructions, as Markdown files beside this one."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from astra_chat.agents.turns import RoleName
from astra_chat.tools.language import CUDA_ONLY, Language
from astra_chat.tools.report import meaning_of_metrics
from astra_chat.tools.types import Basis

TOLD_METRICS: set[RoleName] = {"planner", "coder", "profiler"}
"""Roles that are told what the names in the judge's report mean."""
TOLD_RULES: set[RoleName] = {"planner", "coder", "fixer"}
"""Roles that are told the rules for kernels."""


@cache
def instructions(
    role: RoleName, basis: Basis = "estimated", languages: tuple[Language, ...] = CUDA_ONLY
) -> str:
    """Returns the instructions of a role, which are the same in every turn, the shared part first.

    Args:
        basis: whether the times that it sees are measured or estimated.
        languages: those in which the run's candidates may be written.
    """
    own = ("single", "planner", "coder", "fixer") if role == "single" else (role,)
    texts = [_read(name) for name in ("everyone", *own)]
    if TOLD_METRICS.intersection(own):
        texts.append(meaning_of_metrics(basis))
    if TOLD_RULES.intersection(own):
        texts += [_read(name) for name in ("kernel_rules", *_more_rules(languages))]
    return "\n".join(texts)


def _more_rules(languages: tuple[Language, ...]) -> list[str]:
    """The rules of languages other than CUDA, whose rules hold for every candidate."""
    return [f"{language}_rules" for language in languages if language not in CUDA_ONLY]


def passage(name: str) -> str:
    """A text beside the roles' that only some prompts have."""
    return _read(name).strip()


def _read(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
