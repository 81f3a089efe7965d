"""Where answers come from. A new kind of model is a class with `Models`' methods and one entry in
KINDS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.turns import Kernel, Position
from astra_chat.models.layer import Readable
from astra_chat.models.meter import Meter, MeteredClient
from astra_chat.models.offline import OfflineClient
from astra_chat.models.openai import OpenAIModels
from astra_chat.models.openai_options import options_of
from astra_chat.models.prices import FREE, Price
from astra_chat.models.recording import Head, Recording
from astra_chat.models.recording_client import RecordingClient
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedModels
from astra_chat.models.spec import ROLES, ModelSpec, Role, at_address, parse
from astra_chat.models.transcript_models import TranscriptModels
from astra_chat.tools.errors import BadInput
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Basis
from astra_chat.transcript.events import Header


class Models(Protocol):
    """The models of one run."""

    name: str

    def client(self, role: Role) -> ChatCompletionClient:
        """The client that a role asks. Call it within the event loop that will ask."""

    def described(self, role: Role) -> str:
        """A role's model and everything that shapes its answers."""

    def price(self, role: Role) -> Price | None:
        """Of a role's tokens; None where it is not known."""

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """The outcome that was foretold for a kernel, if any was."""

    async def close(self) -> None:
        """Close every client that was given."""


def _scripted(name: str, roles: Mapping[Role, ModelSpec], task: Task) -> Models:
    if any(spec.argument for spec in roles.values()):
        raise BadInput("'scripted' takes no argument: it reads the task's script/")
    if len(roles) == len(ROLES) and any(spec.options for spec in roles.values()):
        raise BadInput("'scripted' takes no options: it reads the task's script/")
    return ScriptedModels(load_script(task))


def _spoken(name: str, roles: Mapping[Role, ModelSpec], task: Task) -> Models:
    files = {spec.argument for spec in roles.values()}
    if len(files) != 1 or "" in files:
        raise BadInput("'spoken' takes the transcript of one run: spoken:FILE")
    if any(spec.options for spec in roles.values()) and len(roles) == len(ROLES):
        raise BadInput("'spoken' takes no options: it says what was said in FILE")
    return TranscriptModels(Path(files.pop()))


def _openai(name: str, roles: Mapping[Role, ModelSpec], task: Task) -> Models:
    return OpenAIModels(name, roles)


KINDS: dict[str, Callable[[str, Mapping[Role, ModelSpec], Task], Models]] = {
    "scripted": _scripted,
    "openai": _openai,
    "spoken": _spoken,
}
"""By the word before the colon of --models. The function gets the whole of --models, and the roles
that its kind plays."""

UNPAID = ("scripted", "spoken")
"""Kinds that ask nobody: their answers are not counted."""


class RunModels:
    """Each role's own kind of models, as the chat asks them: with the tape running, if there is
    one, and only readable answers come through."""

    def __init__(
        self, name: str, parts: Mapping[Role, Models], tape: Recording | None = None
    ) -> None:
        self.name, self._parts, self.tape = name, parts, tape
        self._meter: Meter | None = None

    def client(self, role: Role) -> ChatCompletionClient:
        client, model = self._parts[role].client(role), self.described(role)
        if self.tape is not None:
            client = RecordingClient(client, role, model, self.tape)
        if self._meter is not None and model.partition(":")[0] not in UNPAID:
            client = MeteredClient(client, role, model, self.price(role), self._meter)
        return Readable(client)

    @property
    def played(self) -> Head | None:
        """The head of a recording that is only played: this machine need not have its device."""
        return self.tape.head if self.tape is not None and self.tape.mode == "replay" else None

    @property
    def typed(self) -> str:
        """The words of --models that resume a run with these models."""
        if self.tape is None:
            return self.name
        if self.tape.mode == "replay":
            return f"replay:{self.tape.path}"
        return f"auto:{self.tape.path}:{self.name}"

    def begin(self, task: Task, run: Header, meter: Meter | None = None) -> None:
        """Start the meter, and the tape if one is to be recorded.

        Raises BadInput if it cannot be written, or a price is lacking that a budget needs.
        """
        self._meter = meter
        if meter is not None:
            meter.require_prices({role: self.price(role) for role in ROLES})
        if self.tape is not None:
            roles = {role: self.described(role) for role in ROLES}
            self.tape.begin(
                Head(
                    models=self.name, roles=dict(roles), task=task.name, device=run.device,
                    versions=run.versions,
                )
            )  # fmt: skip

    def described(self, role: Role) -> str:
        return self._parts[role].described(role)

    def price(self, role: Role) -> Price | None:
        return self._parts[role].price(role)

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        found = [part.expected(kernel, place, basis) for part in self._parts.values()]
        return next((one for one in found if one is not None), None)

    async def close(self) -> None:
        for part in self._parts.values():
            await part.close()


class RecordedModels:
    """What stands behind a recording that is only played: nobody."""

    def __init__(self, head: Head, task: Task) -> None:
        self.name, self._roles = head.models, head.roles
        scripted = any(spec.kind == "scripted" for spec in parse(head.models).values())
        self._script = ScriptedModels(load_script(task)) if scripted else None

    def client(self, role: Role) -> ChatCompletionClient:
        return OfflineClient()

    def described(self, role: Role) -> str:
        return self._roles.get(role, "")

    def price(self, role: Role) -> Price | None:
        """As if it were spent again: a replay's ledger is the recorded run's."""
        spec = parse(self.name)[role]
        return options_of(role, spec).price if spec.kind == "openai" else FREE

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """What a script foretells stands in the task's folder, not on the tape."""
        return self._script.expected(kernel, place, basis) if self._script else None

    async def close(self) -> None:
        """Nothing is open."""


def open_models(spec: str, task: Task, base_url: str | None = None) -> RunModels:
    """The models named by --models, see models/spec.py; before them may stand record:FILE: or
    auto:FILE:, and replay:FILE stands alone.

    Raises BadInput naming what there is, MissingDependency where a key is missing.
    """
    mode, _, rest = spec.partition(":")
    if mode == "replay":
        if base_url is not None:
            raise BadInput("--base-url: a replay asks no server")
        tape = Recording(_file(rest, spec), "replay")
        assert tape.head is not None
        played = RecordedModels(tape.head, task)
        return RunModels(played.name, dict.fromkeys(ROLES, played), tape)
    if mode in ("record", "auto"):
        file, _, inner = rest.partition(":")
        if not inner:
            raise BadInput(
                f"--models {spec}: name file and models, as in {mode}:FILE:openai:o4-mini"
            )
        name = at_address(inner, base_url)
        path = _file(file, spec)
        tape = Recording(path, "record") if mode == "record" else Recording(path, "auto")
        return RunModels(name, _parts(name, task), tape)
    name = at_address(spec, base_url)
    return RunModels(name, _parts(name, task))


def _file(name: str, spec: str) -> Path:
    if not name:
        raise BadInput(f"--models {spec}: name the recording's file")
    return Path(name)


def _parts(spec: str, task: Task) -> dict[Role, Models]:
    """Who plays each role; one object for all roles of a kind."""
    roles = parse(spec)
    for one in roles.values():
        if one.kind not in KINDS:
            there = ", ".join([*KINDS, "record", "auto", "replay"])
            raise BadInput(f"no models '{one}': there is {there}")
    parts: dict[Role, Models] = {}
    for kind, make in KINDS.items():
        played = {role: one for role, one in roles.items() if one.kind == kind}
        if played:
            parts |= dict.fromkeys(played, make(spec, played, task))
    return parts
