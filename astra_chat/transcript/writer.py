"""Writes a transcript: a line for each event, on the disk before the chat goes on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TextIO

from astra_chat.tools.errors import BadInput, EnvironmentLack
from astra_chat.transcript.events import (
    BuildDone,
    Event,
    Judged,
    Proposed,
    Record,
    Spoken,
)

NAME = "transcript.jsonl"


class Writer:
    """Appends events to a new transcript. Raises BadInput if the file is there already or cannot be
    made, EnvironmentLack if it cannot be written to any more."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self._run = path, run
        self._file = _create(path)
        self._start = time.monotonic()
        self._seq = self._turn = 0

    def append(self, *events: Event) -> list[Record]:
        """Write the events and wait until the disk has them."""
        records = [self._record(event) for event in events]
        try:
            self._file.writelines(record.model_dump_json() + "\n" for record in records)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise EnvironmentLack(f"cannot write {self.path}: {error.strerror}") from None
        return records

    def close(self) -> None:
        self._file.close()

    def _record(self, event: Event) -> Record:
        self._turn += isinstance(event, Spoken | Proposed | BuildDone | Judged)
        seconds = round(time.monotonic() - self._start, 4)
        record = Record(run=self._run, seq=self._seq, t=seconds, turn=self._turn, event=event)
        self._seq += 1
        return record


def _create(path: Path) -> TextIO:
    """Open a file that must not be there yet: an existing transcript is never overwritten."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        there = path if path.exists() else path.parent
        raise BadInput(
            f"{there} is there already and is not overwritten: name another folder"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
