"""Writes a transcript: a line for each event, in the file before the chat continues.

What is written survives a kill of the process at once. A power cut is another matter: the disk is
waited for at the end, and at a turn that comes a second or more after the one before. So a turn
that took long, as a model's answer or an evaluation does, is on the disk before the chat continues,
and quick turns do not wait for it.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.events import (
    Blob,
    BuildDone,
    ChatMessage,
    Event,
    Judged,
    Proposed,
    Record,
)
from astra_chat.transcript.reader import Transcript
from astra_vgpu.ground.errors import BadInput, MissingDependency

UNPACKED_BY = {".gz": "gunzip -k", ".xz": "xz -dk"}
"""The command that unpacks a transcript, by the end of its name."""
SYNC_S = 1.0
"""A turn that comes later than so long after the one before waits for the disk."""


class Writer:
    """Appends events to a new transcript, or by `go_on` to one that is there.

    Raises BadInput if a new file is there already or cannot be made, or another process writes it;
    MissingDependency if it cannot be written to any more.
    """

    def __init__(self, path: Path, run: str, file: FileIO | None = None) -> None:
        self.path, self._run, self._file = path, run, file or _create(path)
        self._start = time.monotonic()
        self._seq = self._turn = self._last_turn = 0
        self._last_turn_at = -math.inf

    @classmethod
    def go_on(cls, transcript: Transcript, kept: int | None = None) -> Writer:
        """Append to a transcript that was read; a torn last line is cut away, and with `kept` all
        but so many records."""
        last = transcript.records[:kept][-1]
        writer = cls(transcript.path, last.run, _open_again(transcript, kept))
        writer._count_from(last)
        return writer

    def append(self, *events: Event) -> list[Record]:
        """Write the events; they are in the file when this returns."""
        before = self._seq, self._turn
        records = [self._record(event) for event in events]
        try:
            self._write(records)
        except MissingDependency:
            self._seq, self._turn = before
            raise
        return records

    def copy(self, records: Iterable[Record]) -> list[Record]:
        """Write another run's records as this one's; its clock continues from the last of them."""
        copies = []
        for record in records:
            copies.append(record.model_copy(update={"run": self._run, "seq": self._seq}))
            self._count_from(copies[-1])
        self._write(copies)
        return copies

    def close(self) -> None:
        """Wait for the disk. Raises MissingDependency where it fails."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise MissingDependency(f"cannot write {self.path}: {error.strerror}") from None
        finally:
            self._file.close()

    def _count_from(self, last: Record) -> None:
        self._start = time.monotonic() - last.t
        self._seq, self._turn = last.seq + 1, last.turn

    def _write(self, records: Iterable[Record]) -> None:
        """In one piece, so that a kill hardly ever tears a line; all of it or nothing."""
        size = self._file.tell()
        left = memoryview("".join(r.model_dump_json() + "\n" for r in records).encode())
        try:
            while left:
                left = left[self._file.write(left) :]
            self._sync_slow_turn()
        except OSError as error:
            # What follows, if the disk has room again, must not stand behind half a line.
            self._file.truncate(size)
            self._file.seek(size)
            raise MissingDependency(f"cannot write {self.path}: {error.strerror}") from None

    def _sync_slow_turn(self) -> None:
        if self._turn == self._last_turn:
            return
        now = time.monotonic()
        if now - self._last_turn_at >= SYNC_S:
            os.fsync(self._file.fileno())
        self._last_turn, self._last_turn_at = self._turn, now

    def _record(self, event: Event) -> Record:
        self._turn += isinstance(event, ChatMessage | Proposed | BuildDone | Judged)
        seconds = round(time.monotonic() - self._start, 4)
        record = Record(run=self._run, seq=self._seq, t=seconds, turn=self._turn, event=event)
        self._seq += 1
        return record


def _create(path: Path) -> FileIO:
    """Open a file that must not be there yet: an existing transcript is never overwritten.

    An empty one holds nothing of a run: it was killed before its first line.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except FileExistsError:
        raise BadInput(
            f"{path.parent} already exists and is not overwritten: choose another folder"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    _lock(file, path)
    if os.fstat(file.fileno()).st_size:
        file.close()
        raise BadInput(f"{path} already exists and is not overwritten: choose another folder")
    return file


def _open_again(transcript: Transcript, kept: int | None) -> FileIO:
    path = transcript.path
    if path.suffix in UNPACKED_BY:
        command = UNPACKED_BY[path.suffix]
        raise BadInput(f"{path} is compressed and cannot be appended to: unpack it with {command}")
    try:
        # No link: what it leads to would be appended to, wherever it is.
        file = FileIO(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+")
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    _lock(file, path)
    whole, newline, _ = file.readall().rpartition(b"\n")
    if len(whole) + len(newline) != transcript.size:
        file.close()
        raise BadInput(f"{path} has grown since it was read: another process is writing to it")
    size = sum(len(line) + 1 for line in whole.split(b"\n")[:kept])
    file.truncate(size)
    file.seek(size)
    return file


def _lock(file: FileIO, path: Path) -> None:
    """Keep others from writing it; the lock goes with the process, however that ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise BadInput(f"{path} is being written by another run: wait until it ends") from None


def events_of(turn: Turn, stored: set[str]) -> list[Event]:
    """The turn as events. A source that is not in `stored` comes first, and is added to it."""
    payload = turn.payload
    if isinstance(payload, BuildReport):
        return [BuildDone(report=payload)]
    if isinstance(payload, Evaluation):
        return [Judged(evaluation=payload)]
    if not isinstance(payload, Kernel):
        return [ChatMessage(speaker=turn.speaker, payload=payload)]
    sha = sha256_of(payload.source)
    proposed = Proposed(
        speaker=turn.speaker,
        words=payload.words,
        candidate=payload.candidate,
        sha256=sha,
        edits=payload.edits,
    )
    return [*blobs([payload.source], stored), proposed]


def blobs(texts: Iterable[str], stored: set[str]) -> list[Event]:
    """Texts that are not stored yet, each once."""
    found: list[Event] = []
    for text in texts:
        sha = sha256_of(text)
        if sha not in stored:
            stored.add(sha)
            found.append(Blob(sha256=sha, text=text))
    return found
