"""A transcript that grows: what was read is kept, and only new lines are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from astra_chat.report.turns import TurnText, TurnTexts
from astra_chat.transcript.events import Record
from astra_chat.transcript.lines import MAX_FILE_BYTES
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.under_way import locked_inodes
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class News:
    """What a reader has not seen."""

    transcript: Transcript
    turns: list[TurnText]
    after: list[str]
    """What was recorded since the last turn."""


class Following:
    """One transcript. May be asked by several threads."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._records: list[Record] = []
        self._texts = TurnTexts()
        self._size = 0
        self._file: tuple[int, int] | None = None

    def running(self) -> bool:
        """Whether a run writes it."""
        try:
            return self._path.stat().st_ino in locked_inodes()
        except OSError:
            return False

    def news(self, seen: int) -> News:
        """Turns after the first `seen`. Raises BadInput where it is no transcript any more."""
        with self._lock:
            self._update()
            whole = Transcript(self._path, tuple(self._records), False, self._size)
            return News(whole, self._texts.turns[seen:], self._texts.after)

    def _update(self) -> None:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise BadInput(f"cannot read {self._path}: {error.strerror}") from None
        same = self._file == (stat.st_dev, stat.st_ino) and stat.st_size >= self._size
        if not same or not self._read_new_lines(stat.st_size):
            self._read_all()
            self._file = (stat.st_dev, stat.st_ino)

    def _read_all(self) -> None:
        found = read(self._path)
        self._records, self._texts, self._size = [], TurnTexts(), 0
        self._add(found.records, found.size)

    def _read_new_lines(self, size: int) -> bool:
        """Whether they continue what was read; an incomplete last line is left for later."""
        if size > MAX_FILE_BYTES:
            return False
        with self._path.open("rb") as file:
            file.seek(self._size)
            whole, newline, _ = file.read(size - self._size).rpartition(b"\n")
        if not newline:
            return True
        try:
            found = [Record.model_validate_json(line) for line in whole.split(b"\n")]
        except ValidationError:
            return False
        last = self._records[-1].seq
        if [one.seq for one in found] != list(range(last + 1, last + 1 + len(found))):
            return False
        self._add(found, self._size + len(whole) + 1)
        return True

    def _add(self, records: tuple[Record, ...] | list[Record], size: int) -> None:
        for record in records:
            self._texts.add(record)
        self._records += records
        self._size = size
