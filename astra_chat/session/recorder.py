"""A run's transcript during the run: what was recorded, and the state of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from astra_chat.agents.limits import Limits
from astra_chat.agents.run_state import RunState, state_of
from astra_chat.agents.turns import Turn
from astra_chat.session.provenance import header
from astra_chat.session.request import Request
from astra_chat.session.resume import Past
from astra_chat.transcript.events import Blob, Event, Header, Record, Resumed
from astra_chat.transcript.run_folder import TRANSCRIPT, new_run, require_room
from astra_chat.transcript.turns import texts, turns_of
from astra_chat.transcript.writer import Writer, blobs, events_of


class Recorder:
    """Everything that is recorded goes through here, and to `on_record`, also what was recorded
    before the run was resumed."""

    def __init__(
        self,
        writer: Writer,
        on_record: Callable[[Record], None],
        limits: Limits,
        before: Sequence[Record] = (),
    ) -> None:
        self._writer, self._on_record = writer, on_record
        self._stored: set[str] = set()
        self.records: list[Record] = []
        self.state = RunState(limits)
        self._remember(before)

    @property
    def path(self) -> Path:
        return self._writer.path

    @property
    def header(self) -> Header:
        event = self.records[0].event
        assert isinstance(event, Header)
        return event

    @property
    def folder(self) -> Path:
        return self._writer.path.parent

    def record(self, *events: Event) -> None:
        """Write events that are no turns."""
        self._show(self._writer.append(*events))

    def store(self, texts: Iterable[str], *before: Event) -> None:
        """Write texts that are not stored yet, after other events."""
        self.record(*before, *blobs(texts, self._stored))

    def take(self, said: Turn, *after: Event) -> None:
        """Write a turn of the chat, and in the same breath what is to be said about it."""
        records = self._writer.append(*events_of(said, self._stored), *after)
        self.state = self.state.after(said)
        self._show(records)

    def copy(self, records: Iterable[Record]) -> None:
        """Take over another run's records; texts that are stored already stay single."""
        news = [
            record
            for record in records
            if not isinstance(record.event, Header)
            and not (isinstance(record.event, Blob) and record.event.sha256 in self._stored)
        ]
        self._remember(self._writer.copy(news))

    def close(self) -> None:
        self._writer.close()

    def _remember(self, records: Sequence[Record]) -> None:
        self._show(records)
        self._stored |= set(texts(records))
        self.state = state_of(turns_of(self.records), self.state.limits)

    def _show(self, records: Sequence[Record]) -> None:
        for record in records:
            self.records.append(record)
            self._on_record(record)


def begin(request: Request, past: Past | None, on_record: Callable[[Record], None]) -> Recorder:
    """Open the transcript of a run: a new one, the one that is resumed, or a branch's.

    Raises BadInput where something of an earlier run would be overwritten.
    """
    played = request.models.played
    judged_with = played.versions if played else None
    head = header(request.task, request.device, request.recorded, judged_with)
    head = head.model_copy(update={"repeats": request.models.repeats})
    if past is not None and past.branched is None:
        journal = Recorder(
            Writer.go_on(past.transcript), on_record, request.limits, past.transcript.records
        )
        journal.record(
            Resumed(
                started=head.started, versions=head.versions, git=head.git, options=head.options
            )
        )
        return journal
    folder, name = new_run(request.task.name, request.folder)
    require_room(folder)
    journal = Recorder(Writer(folder / TRANSCRIPT, name), on_record, request.limits)
    origin = past.origin if past else None
    journal.store(request.task.files().values(), head.model_copy(update={"origin": origin}))
    if past is not None and past.branched is not None:
        journal.copy(past.branched)
    return journal
