"""Each role's model as the chat calls it: recorded, metered, and checked for readable replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.turns import Kernel, Position
from astra_chat.models.layer import Readable
from astra_chat.models.mailbox import Asker, MailboxModels
from astra_chat.models.metered import MeteredClient
from astra_chat.models.offline import OfflineClient
from astra_chat.models.openai_options import options_of
from astra_chat.models.recording import Head, Recording
from astra_chat.models.recording_client import RecordingClient
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedModels
from astra_chat.models.spec import LIVE, ROLES, Role, parse
from astra_chat.models.transcript_models import TranscriptModels
from astra_chat.spending.meter import Meter
from astra_chat.spending.prices import FREE, Price
from astra_chat.tools.language import CUDA_ONLY, Language
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Basis
from astra_chat.transcript.events import Header, RepeatedRun


class Models(Protocol):
    """The models of one run."""

    name: str

    def client(self, role: Role) -> ChatCompletionClient:
        """A role's client. Call it within the event loop that will use it."""

    def described(self, role: Role) -> str:
        """A role's model and all options that determine its answers."""

    def price(self, role: Role) -> Price | None:
        """Price of a role's tokens; None if unknown."""

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """The outcome that was predicted for a kernel, if any was."""

    async def close(self) -> None:
        """Close all clients."""


UNPAID = ("scripted", "transcript")
"""Backends without a live model: their answers cost nothing."""


class RunModels:
    """All roles' models as the chat calls them: recorded, if there is a recording, and metered.
    Unreadable answers become UnusableReply."""

    def __init__(
        self, name: str, parts: Mapping[Role, Models], recording: Recording | None = None
    ) -> None:
        self.name, self._parts, self.recording = name, parts, recording
        self._meter: Meter | None = None

    def client(self, role: Role) -> ChatCompletionClient:
        client, model = self._parts[role].client(role), self.described(role)
        if self.recording is not None:
            client = RecordingClient(client, role, model, self.recording)
        if self._meter is not None and model.partition(":")[0] not in UNPAID:
            client = MeteredClient(client, role, model, self.price(role), self._meter)
        return Readable(client)

    @property
    def played(self) -> Head | None:
        """The head of a recording that is played back: this machine need not have its device."""
        return (
            self.recording.head
            if self.recording is not None and self.recording.mode == "replay"
            else None
        )

    @property
    def repeats(self) -> RepeatedRun | None:
        """The recorded run whose replies some role repeats."""
        parts = self._parts.values()
        return next((part.repeats for part in parts if isinstance(part, TranscriptModels)), None)

    @property
    def typed(self) -> str:
        """The value of --models that resumes a run with these models."""
        if self.recording is None:
            return self.name
        if self.recording.mode == "replay":
            return f"replay:{self.recording.path}"
        return f"auto:{self.recording.path}:{self.name}"

    def begin(
        self, task: Task, run: Header, meter: Meter | None = None, asker: Asker | None = None
    ) -> None:
        """Start the meter, and the recording if one is to be recorded. `asker`: the run, for those
        whose answers take long.

        Raises BadInput if it cannot be written, or a price is lacking that a budget needs.
        """
        self._meter = meter
        for part in self._parts.values():
            if isinstance(part, MailboxModels) and asker is not None:
                part.begin(asker)
        if meter is not None:
            meter.require_prices({role: self.price(role) for role in ROLES})
        if self.recording is not None:
            roles = {role: self.described(role) for role in ROLES}
            self.recording.begin(
                Head(
                    models=self.name,
                    roles=dict(roles),
                    task=task.name,
                    device=run.device,
                    versions=run.versions,
                )
            )

    def described(self, role: Role) -> str:
        return self._parts[role].described(role)

    def price(self, role: Role) -> Price | None:
        return self._parts[role].price(role)

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        found = [part.expected(kernel, place, basis) for part in self._parts.values()]
        return next((one for one in found if one is not None), None)

    def stop_waiting(self) -> bool:
        """Wait no longer for an answer that somebody has to give; False where none is awaited."""
        mailboxes = {p for p in self._parts.values() if isinstance(p, MailboxModels)}
        return any([mailbox.stop_waiting() for mailbox in mailboxes])

    async def close(self) -> None:
        for part in self._parts.values():
            await part.close()


class RecordedModels:
    """The models of a recording that is played back: there are none."""

    def __init__(self, head: Head, task: Task, languages: Sequence[Language] = CUDA_ONLY) -> None:
        self.name, self._roles = head.models, head.roles
        scripted = any(spec.kind == "scripted" for spec in parse(head.models).values())
        self._script = ScriptedModels(load_script(task, languages)) if scripted else None

    def client(self, role: Role) -> ChatCompletionClient:
        return OfflineClient()

    def described(self, role: Role) -> str:
        return self._roles.get(role, "")

    def price(self, role: Role) -> Price | None:
        """The recorded run's price, so that a replay has the same ledger."""
        spec = parse(self.name)[role]
        return options_of(role, spec).price if spec.kind in LIVE else FREE

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """A script's expectations are in the task's folder, not in the recording."""
        return self._script.expected(kernel, place, basis) if self._script else None

    async def close(self) -> None:
        """Nothing is open."""
