"""Reads a transcript back, whole or cut off, and says plainly what is wrong with one.

Lines of older format versions are read under the present names of kinds, fields and values. A file
may hold both, since a resumed run appends to an old one.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from astra_chat.agents.reply_errors import MAX_SOURCE
from astra_chat.tools.text import one_line
from astra_chat.transcript.events import (
    VERSION,
    Blob,
    Ended,
    Header,
    Proposed,
    Record,
    Resumed,
    TurnEvent,
    Unknown,
)
from astra_chat.transcript.lines import read_lines
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput

READABLE = range(1, VERSION + 1)
CURRENT = f'{{"v":{VERSION},'
"""How a line of the present version begins, as the writer writes it."""
KINDS = {
    "spoken": "message",
    "repaired": "rejected_reply",
    "doubted": "contradiction",
    "asked": "model_call",
}
"""Kinds of events of version 1 with other names in version 2, and these."""


@dataclass(frozen=True)
class Transcript:
    """A transcript as it was read."""

    path: Path
    records: tuple[Record, ...]
    torn: bool
    """The last line was cut off and has been dropped."""
    size: int
    """Bytes of the whole lines."""

    @property
    def header(self) -> Header:
        """First event of every transcript that `read` accepts."""
        event = self.records[0].event
        assert isinstance(event, Header)
        return event

    @property
    def options(self) -> RunOptions:
        """What the user asked for last."""
        found = [r.event.options for r in self.records if isinstance(r.event, Header | Resumed)]
        return found[-1]

    @property
    def ended(self) -> Ended | None:
        """None where the run was killed before its end."""
        event = self.records[-1].event
        return event if isinstance(event, Ended) else None


def read(path: Path) -> Transcript:
    """Read a transcript, or the one in a run's folder. Raises BadInput in one clear line."""
    if path.is_dir():
        path = path / TRANSCRIPT
        if path.is_symlink():
            raise BadInput(f"{path} is a link: give the file that it points to")
    found = read_lines(path)
    lines = [line.decode(errors="replace") for line in found.texts]
    torn = found.torn
    _require_transcript(path, lines, torn)
    with _without_collection():
        records = tuple(_record(path, number, line) for number, line in enumerate(lines, 1))
    if not isinstance(records[0].event, Header):
        raise BadInput(f"{path} is not an Astra transcript: its first line is not a header")
    run, turn = records[0].run, 0
    for number, record in enumerate(records):
        turn += isinstance(record.event, TurnEvent)
        if isinstance(record.event, Unknown) and record.turn == turn + 1:
            turn += 1  # a kind of turn that this version does not know
        if (record.seq, record.run, record.turn) != (number, run, turn):
            raise BadInput(f"{path}, line {number + 1}: lines are missing or out of order")
    _require_files(path, records)
    return Transcript(path, records, torn, found.size)


def _require_transcript(path: Path, lines: list[str], torn: bool) -> None:
    """Tell from the first line whether this is a transcript that this version reads."""
    if not lines:
        what = "is cut off in its first line" if torn else "is empty"
        raise BadInput(f"{path} {what}: not an Astra transcript")
    try:
        first = json.loads(lines[0])
        version = first["v"]
        first["run"], first["seq"], first["event"]["kind"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(f"{path} is not an Astra transcript") from None
    if version not in READABLE:
        raise BadInput(
            f"{path} is a transcript of format version {version}; this version of Astra"
            f" reads versions 1 to {VERSION}"
        )


def _record(path: Path, number: int, line: str) -> Record:
    try:
        if not line.startswith(CURRENT):
            line = json.dumps(migrated(json.loads(line)))
        return Record.model_validate_json(line)
    except (json.JSONDecodeError, RecursionError):
        raise BadInput(f"{path}, line {number}: invalid JSON") from None
    except ValidationError as error:
        # Of an event there are two readings, and what is wrong with that of a known kind comes
        # first.
        first = error.errors()[0]
        parts = [str(part) for part in first["loc"] if not str(part).startswith("tagged-union")]
        raise BadInput(
            f"{path}, line {number}: {'.'.join(parts) or 'line'}: {first['msg']}"
        ) from None


@contextmanager
def _without_collection() -> Iterator[None]:
    """Python's collector looks through everything that was read so far again and again, in vain:
    nothing of it is garbage. It takes two thirds of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _require_files(path: Path, records: tuple[Record, ...]) -> None:
    """Every text that is named by its hash has to be there."""
    stored: dict[str, int] = {}
    named: dict[str, str] = {}
    for record in records:
        match record.event:
            case Blob(sha256=sha, text=text):
                stored[sha] = len(text)
            case Header(task=task):
                named |= {sha: f"the task's {name}" for name, sha in task.files.items()}
            case Proposed(sha256=sha, candidate=candidate):
                named[sha] = f"the source of candidate {candidate}"
                if stored.get(sha, 0) > MAX_SOURCE:
                    raise BadInput(f"{path}: {named[sha]} has {stored[sha]:,} characters")
    if missing := [what for sha, what in named.items() if sha not in stored]:
        raise BadInput(f"{path} is cut off: {missing[0]} is missing")


def unknown_kinds(transcript: Transcript) -> str | None:
    """What a newer Astra recorded and this one does not know, in one line; None if nothing."""
    kinds = [r.event.kind for r in transcript.records if isinstance(r.event, Unknown)]
    if not kinds:
        return None
    names = ", ".join(one_line(kind)[:40] for kind in dict.fromkeys(kinds))
    return f"{transcript.path}: {len(kinds)} events of unknown kind are not shown: {names[:400]}"


def incompleteness(transcript: Transcript) -> str | None:
    """What is missing at a transcript's end, in one line; None if nothing."""
    way = f"resume with: astra-chat run --resume {transcript.path}"
    if transcript.torn:
        return f"{transcript.path}: the last line was cut off and is left out; {way}"
    if transcript.ended is not None:
        return None
    turns = turns_of(transcript.records)
    if turns and turns[-1].speaker == "human":
        return f"{transcript.path}: decided; {way}"
    return (
        f"{transcript.path}: the run was killed before it ended, or is still running; this"
        f" is all that it recorded; {way}"
    )


def migrated(line: Any) -> Any:
    """A parsed line of version 1 as one of version 2. Anything else comes back unchanged: whoever
    validates it reports what is wrong."""
    if not isinstance(line, dict) or line.get("v") != 1:
        return line
    event = line.get("event")
    if not isinstance(event, dict):
        return line
    event = _renamed_limiters(event)
    if isinstance(kind := event.get("kind"), str):
        event["kind"] = KINDS.get(kind, kind)
    payload = event.get("payload")
    if isinstance(payload, dict) and payload.get("kind") == "commission":
        event["payload"] = {**payload, "kind": "request"}
    if event.get("kind") == "spent" and "doubted" in event:
        event["contradictions"] = event.pop("doubted")
    return {**line, "v": 2, "event": event}


def _renamed_limiters(value: Any) -> Any:
    """A copy in which starting blocks limits under its present name, in profiles and times."""
    match value:
        case dict():
            return {
                key: "block_start"
                if key in ("limiter", "bottleneck") and one == "launch"
                else _renamed_limiters(one)
                for key, one in value.items()
            }
        case list():
            return [_renamed_limiters(one) for one in value]
        case _:
            return value
