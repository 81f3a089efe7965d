"""A recording of all that came into a run from outside: models' replies, the judge's results.

JSON lines: a head, then one line for each request with its answer, on disk before the run
continues. Played back, a run needs neither network nor GPU. Independent of AutoGen and the judge.
"""

from __future__ import annotations

import difflib
import json
import os
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from astra_chat.tools.types import Device, Value, canonical_sha256
from astra_chat.tools.wording import counted
from astra_chat.transcript.lines import read_lines
from astra_vgpu.ground.errors import BadInput, MissingDependency

MAX_LINES = 4
LONGEST_LINE = 100


def nearest(request: dict[str, Any], recorded: Sequence[dict[str, Any]]) -> int:
    """Index of the recorded request that has the most lines in common with this one."""
    wanted = Counter(_lines(request))

    def distance(other: dict[str, Any]) -> int:
        lines = Counter(_lines(other))
        return (wanted - lines).total() + (lines - wanted).total()

    return min(range(len(recorded)), key=lambda number: distance(recorded[number]))


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first message, else the first field, in which two requests differ, and how."""
    old, new = before.get("messages", []), after.get("messages", [])
    for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
        if one != other:
            who = one.get("type", "message")
            return f"message {number} ({who}) differs: {changes(_text(one), _text(other))}"
    if len(old) != len(new):
        return f"it has {len(new)} messages, but the recorded one has {len(old)}"
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    name = names[0]
    return f"'{name}' differs: {changes(_text(before.get(name)), _text(after.get(name)))}"


def changes(before: str, after: str) -> str:
    """Lines that are gone ("- ...") and lines that came ("+ ..."), the first few, each cut."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    found = [line for line in list(diff)[2:] if not line.startswith("@@")]
    shown = [f"{line[0]} {_cut(line[1:].strip())!r}" for line in found[:MAX_LINES]]
    rest = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more lines" if rest > 0 else "")


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."


def _lines(request: dict[str, Any]) -> list[str]:
    messages = [line for one in request.get("messages", []) for line in _text(one).splitlines()]
    rest = {name: value for name, value in request.items() if name != "messages"}
    return messages + _text(rest).splitlines()


def _text(value: Any) -> str:
    """A message's own text, else the value as indented JSON."""
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        return str(value["content"])
    return value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True)


Mode = Literal["record", "auto", "replay"]
"""auto: recorded answers are played back; other requests are made and recorded."""
Json: TypeAlias = dict[str, Any]
VERSION = 1


class Head(Value):
    """First line of a recording."""

    kind: Literal["head"] = "head"
    v: int = VERSION
    models: str
    """The words of --models that were recorded."""
    roles: dict[str, str]
    """What plays each role, with everything that shapes its answers."""
    task: str
    device: Device
    versions: dict[str, str]
    """Versions of what judged the recorded run, as in the head of its transcript."""


class Line(Value):
    """One question and what came."""

    kind: Literal["line"] = "line"
    who: str
    """The role that asked; "executor" asks the judge."""
    key: str
    """sha256 of the request in canonical JSON."""
    n: int
    """How often the same had been asked before."""
    request: Json
    answer: Json


@dataclass(frozen=True)
class RequestPlace:
    """Identifies a request, and its answer in the recording."""

    who: str
    key: str
    n: int
    request: Json


def key_of(request: Json) -> str:
    """sha256 of the request in canonical JSON."""
    return canonical_sha256(request)


class Recording:
    """Safe to use from several threads, since the judge works in threads of its own."""

    def __init__(self, path: Path, mode: Mode) -> None:
        """Reads what is there. Raises BadInput if it is not a recording, is missing although
        it is to be played back, or exists although a new one is to be recorded."""
        self.path, self.mode = path, mode
        self._lock = threading.Lock()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lines: dict[tuple[str, str, int], Line] = {}
        self.head: Head | None = None
        self._whole = 0
        if mode == "record" and path.exists():
            raise BadInput(
                f"{path} already exists and is not overwritten: choose another file, or use"
                f" auto:{path}:... to add to it"
            )
        if mode == "replay" or path.exists():
            self._read()

    def begin(self, head: Head) -> None:
        """Be ready to record: make the file, or cut off its torn last line."""
        if self.mode == "replay" or (self.head is not None and self._whole == _size(self.path)):
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.head is not None:
                os.truncate(self.path, self._whole)
                return
            with self.path.open("x"):
                pass
        except OSError as error:
            raise BadInput(f"cannot write {self.path}: {error.strerror}") from None
        self.head = head
        self._append(head)

    def place(self, who: str, request: Json) -> RequestPlace:
        """Count a question. Call it once for each."""
        request = json.loads(json.dumps(request))
        key = key_of(request)
        with self._lock:
            n = self._asked[who, key]
            self._asked[who, key] += 1
        return RequestPlace(who, key, n, request)

    def recorded(self, place: RequestPlace) -> Json | None:
        """The recorded answer. None if there is none and one may be asked for.

        Raises BadInput if only recorded answers may be used; it names the difference.
        """
        if self.mode == "record":
            return None
        line = self._lines.get((place.who, place.key, place.n))
        if self.mode == "auto" and (line is None or "failure" in line.answer):
            return None
        if line is not None:
            return line.answer
        raise BadInput(f"{self.path}: {self._why_not(place)}")

    def keep(self, place: RequestPlace, answer: Json) -> None:
        """Record an answer; it is on the disk when this returns. Raises MissingDependency."""
        line = Line(who=place.who, key=place.key, n=place.n, request=place.request, answer=answer)
        with self._lock:
            self._lines[place.who, place.key, place.n] = line
            self._append(line)

    def _why_not(self, place: RequestPlace) -> str:
        lines = [line for line in self._lines.values() if line.who == place.who]
        if not lines:
            return f"no request from the {place.who} is recorded"
        if times := sum(line.key == place.key for line in lines):
            seen = counted(times, "time")
            return f"the recording contains this request from the {place.who} only {seen}"
        requests = [line.request for line in lines]
        number = nearest(place.request, requests)
        return (
            f"this request from the {place.who} is not recorded; the closest one, {number + 1} of"
            f" {len(requests)}, differs: {difference(requests[number], place.request)}"
        )

    def _append(self, value: Head | Line) -> None:
        try:
            with self.path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(value.model_dump_json() + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise MissingDependency(f"cannot write {self.path}: {error.strerror}") from None

    def _read(self) -> None:
        found = read_lines(self.path)
        self._whole = found.size
        first, *rest = found.texts or [b""]
        try:
            self.head = Head.model_validate_json(first)
        except ValidationError:
            raise BadInput(f"{self.path} is not an Astra recording") from None
        if self.head.v != VERSION:
            raise BadInput(
                f"{self.path} is a recording of format version {self.head.v}; this version"
                f" of Astra reads version {VERSION}"
            )
        for number, text in enumerate(rest, 2):
            try:
                line = Line.model_validate_json(text)
            except ValidationError as error:
                problem = error.errors()[0]["msg"]
                raise BadInput(f"{self.path}, line {number}: {problem}") from None
            self._lines[line.who, line.key, line.n] = line


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1
