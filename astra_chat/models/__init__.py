"""Where answers come from. A new kind of model is a class with `Models`' methods and one entry in
KINDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.payloads import Kernel, RoleName
from astra_chat.agents.thread import Position
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedModels
from astra_chat.tools.errors import BadInput
from astra_chat.tools.tasks import Task


class Models(Protocol):
    """The models of one run."""

    name: str

    def client(self, role: RoleName | Literal["selector"]) -> ChatCompletionClient:
        """The client that a role asks."""

    def expected(self, kernel: Kernel, place: Position) -> str | None:
        """The outcome that was foretold for a kernel, if any was."""


def _scripted(argument: str, task: Task) -> Models:
    if argument:
        raise BadInput("'scripted' takes no argument: it reads the task's script/")
    return ScriptedModels(load_script(task))


KINDS: dict[str, Callable[[str, Task], Models]] = {"scripted": _scripted}
"""By the word before the colon of --models; the function gets what stands after it."""


def open_models(spec: str, task: Task) -> Models:
    """The models named by --models. Raises BadInput naming what there is."""
    kind, _, argument = spec.partition(":")
    if kind not in KINDS:
        raise BadInput(f"no models '{spec}': there is {', '.join(KINDS)}")
    return KINDS[kind](argument, task)
