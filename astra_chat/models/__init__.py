"""Where answers come from. A new kind of model is a class with `Models`' methods and one entry in
KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.payloads import Kernel
from astra_chat.agents.thread import Position
from astra_chat.models.layer import Readable
from astra_chat.models.openai import OpenAIModels
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedModels
from astra_chat.models.spec import ROLES, ModelSpec, Role, at_address, parse
from astra_chat.tools.errors import BadInput
from astra_chat.tools.tasks import Task


class Models(Protocol):
    """The models of one run."""

    name: str

    def client(self, role: Role) -> ChatCompletionClient:
        """The client that a role asks. Call it within the event loop that will ask."""

    def described(self, role: Role) -> str:
        """A role's model and everything that shapes its answers."""

    def expected(self, kernel: Kernel, place: Position) -> str | None:
        """The outcome that was foretold for a kernel, if any was."""

    async def close(self) -> None:
        """Close every client that was given."""


def _scripted(name: str, roles: Mapping[Role, ModelSpec], task: Task) -> Models:
    if any(spec.argument for spec in roles.values()):
        raise BadInput("'scripted' takes no argument: it reads the task's script/")
    if len(roles) == len(ROLES) and any(spec.options for spec in roles.values()):
        raise BadInput("'scripted' takes no options: it reads the task's script/")
    return ScriptedModels(load_script(task))


def _openai(name: str, roles: Mapping[Role, ModelSpec], task: Task) -> Models:
    return OpenAIModels(name, roles)


KINDS: dict[str, Callable[[str, Mapping[Role, ModelSpec], Task], Models]] = {
    "scripted": _scripted,
    "openai": _openai,
}
"""By the word before the colon of --models. The function gets the whole of --models, and the roles
that its kind plays."""


class RunModels:
    """Each role's own kind of models, as the chat asks them: only readable answers come through."""

    def __init__(self, name: str, parts: Mapping[Role, Models]) -> None:
        self.name, self._parts = name, parts

    def client(self, role: Role) -> ChatCompletionClient:
        return Readable(self._parts[role].client(role))

    def described(self, role: Role) -> str:
        return self._parts[role].described(role)

    def expected(self, kernel: Kernel, place: Position) -> str | None:
        found = [part.expected(kernel, place) for part in self._parts.values()]
        return next((one for one in found if one is not None), None)

    async def close(self) -> None:
        for part in self._parts.values():
            await part.close()


def open_models(spec: str, task: Task, base_url: str | None = None) -> Models:
    """The models named by --models, see models/spec.py.

    Raises BadInput naming what there is, EnvironmentLack where a key is missing.
    """
    spec = at_address(spec, base_url)
    roles = parse(spec)
    for one in roles.values():
        if one.kind not in KINDS:
            raise BadInput(f"no models '{one}': there is {', '.join(KINDS)}")
    parts: dict[Role, Models] = {}
    for kind, make in KINDS.items():
        played = {role: one for role, one in roles.items() if one.kind == kind}
        if played:
            parts |= dict.fromkeys(played, make(spec, played, task))
    return RunModels(spec, parts)
