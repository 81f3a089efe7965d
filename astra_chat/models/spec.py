"""The words of --models as values: a model for all roles, then a role's own, and options.

openai:o4-mini,coder=openai:gpt-5,reasoning_effort=high,coder.max_completion_tokens=30000
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from astra_chat.agents.turns import RoleName
from astra_chat.tools.errors import BadInput

Role: TypeAlias = RoleName | Literal["selector"]
"""Everyone who asks a model."""
ROLES: tuple[Role, ...] = (*get_args(RoleName), "selector")


@dataclass(frozen=True)
class ModelSpec:
    """The model of one role: "openai", "o4-mini" and {"reasoning_effort": "high"}."""

    kind: str
    argument: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


def at_address(spec: str, base_url: str | None) -> str:
    """The words of --models and --base-url in one."""
    return spec if base_url is None else f"{spec},base_url={base_url}"


def parse(spec: str) -> dict[Role, ModelSpec]:
    """The model of every role. Raises BadInput naming the part that is off.

    Parts are separated by commas. The first is the model of all roles; then `role=model` is that
    role's own, `option=value` holds for all roles and `role.option=value` for that one.
    """
    first, *rest = spec.split(",")
    models: dict[Role, str] = dict.fromkeys(ROLES, first)
    shared: dict[str, str] = {}
    own: dict[Role, dict[str, str]] = {role: {} for role in ROLES}
    for part in rest:
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--models: '{part}' is not of the form name=value")
        before, dot, option = name.partition(".")
        if dot:
            own[_role(before, part)][option] = value
        elif (role := _as_role(name)) is not None:
            models[role] = value
        else:
            shared[name] = value
    return {role: _spec(models[role], {**shared, **own[role]}) for role in ROLES}


def _as_role(name: str) -> Role | None:
    return next((role for role in ROLES if role == name), None)


def _role(name: str, part: str) -> Role:
    role = _as_role(name)
    if role is None:
        raise BadInput(f"--models: '{part}': there is no role '{name}', only {', '.join(ROLES)}")
    return role


def _spec(model: str, options: dict[str, str]) -> ModelSpec:
    kind, _, argument = model.partition(":")
    return ModelSpec(kind, argument, options)
