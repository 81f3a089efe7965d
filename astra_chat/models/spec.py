"""Parses --models: a model for all roles, then models of single roles, and options.

openai:o4-mini,coder=openai:gpt-5,reasoning_effort=high,coder.max_completion_tokens=30000
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from astra_chat.agents.turns import RoleName
from astra_chat.models.providers import PROVIDERS
from astra_vgpu.ground.errors import BadInput

Role: TypeAlias = RoleName | Literal["selector"]
"""All that call a model."""
EXAMPLE = "openai:o4-mini,coder=openai:gpt-5"
"""The form of --models, for messages."""
ROLES: tuple[Role, ...] = (*get_args(RoleName), "selector")


LIVE = tuple(PROVIDERS)
"""Backends that ask a live model."""
BACKENDS = ("scripted", *LIVE, "transcript", "mailbox")
"""What stands before the colon of a role's model."""
OLD_NAMES = {"spoken": "transcript"}
"""Names that transcripts from before version 2 use."""


@dataclass(frozen=True)
class ModelSpec:
    """The model of one role: "openai", "o4-mini" and {"reasoning_effort": "high"}."""

    kind: str
    argument: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


def at_address(spec: str, base_url: str | None) -> str:
    """--models and --base-url in one text."""
    return spec if base_url is None else f"{spec},base_url={base_url}"


def parse(spec: str) -> dict[Role, ModelSpec]:
    """The model of every role. Raises BadInput, which names the wrong part.

    Parts are separated by commas. The first is the model of all roles; then `role=model` is that
    role's own, `option=value` holds for all roles and `role.option=value` for that one.
    """
    first, *rest = spec.split(",")
    if "=" in first.partition(":")[0]:
        raise BadInput(
            f"--models: give the model for all roles first, before '{first}': for example {EXAMPLE}"
        )
    models: dict[Role, str] = dict.fromkeys(ROLES, first)
    shared: dict[str, str] = {}
    own: dict[Role, dict[str, str]] = {role: {} for role in ROLES}
    for part in rest:
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise BadInput(
                f"--models: '{part}' is not of the form name=value: for example {EXAMPLE}"
            )
        before, dot, option = name.partition(".")
        if dot:
            own[_role(before, part)][option] = value
        elif (role := _as_role(name)) is not None:
            models[role] = value
        elif ":" in value and value.partition(":")[0] in BACKENDS:
            raise _no_role(name, part)
        else:
            shared[name] = value
    specs = {role: _spec(models[role], {**shared, **own[role]}) for role in ROLES}
    providers = {spec.kind for spec in specs.values() if spec.kind in LIVE}
    if "base_url" in shared and len(providers) > 1:
        raise BadInput(
            "--models: a base_url shared by several providers would get the keys of all of them:"
            " set it for one role, as in coder.base_url=URL"
        )
    return specs


def _as_role(name: str) -> Role | None:
    return next((role for role in ROLES if role == name), None)


def _role(name: str, part: str) -> Role:
    role = _as_role(name)
    if role is None:
        raise _no_role(name, part)
    return role


def _no_role(name: str, part: str) -> BadInput:
    return BadInput(
        f"--models: '{part}': there is no role '{name}'; the roles are {', '.join(ROLES)}: for"
        " example"
        f" {EXAMPLE}"
    )


def _spec(model: str, options: dict[str, str]) -> ModelSpec:
    kind, colon, argument = model.partition(":")
    if kind in LIVE and not argument and (colon or kind != "openai"):
        example = f"{kind}:{PROVIDERS[kind].example}"
        raise BadInput(f"--models: '{model}' names no model: for example {example}")
    return ModelSpec(OLD_NAMES.get(kind, kind), argument, options)
