"""A question of a run: a folder with prompt.md, schema.json and meta.json."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.agents.turns import Position, RoleName
from astra_chat.mailbox.files import Unreadable, read_text, whole_folder, write_new
from astra_chat.tools.language import SUFFIXES
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput

PROMPT, SCHEMA, META, CLOSED = "prompt.md", "schema.json", "meta.json", "closed.md"
GIVEN, TAKEN = "given.json", "taken.json"
"""An answer that `mailbox answer` put there, and the one that the run has taken."""
REPLY, WORDS, ANSWERED_BY = "reply.json", "words.md", "answered-by.txt"
KERNEL = f"kernel{SUFFIXES['cuda']}"
KERNELS = (KERNEL, f"kernel{SUFFIXES['triton']}")
"""Answers written by hand."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

LOOK_S = 0.2
"""Between two looks at a mailbox."""

State: TypeAlias = Literal["open", "answered", "closed"]


class Meta(Value):
    """What a question says about itself; meta.json."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/question/1"] = Field("astra-chat/question/1", alias="schema")
    id: str = Field(pattern=rf"^{ID.pattern}$")
    """The name of its folder."""
    run: str
    task: str
    role: RoleName | Literal["selector"]
    round: int
    attempt: int
    asked: str
    """UTC, ISO 8601 with microseconds."""
    transcript: str
    """Path of the run's transcript on the machine where it runs."""
    kernel: bool
    """A kernel is an answer: kernel.cu or kernel.py, and words.md, instead of reply.json."""

    @property
    def position(self) -> Position:
        return Position(round=self.round, attempt=self.attempt)


@dataclass(frozen=True)
class Question:
    """One question that is on the disk."""

    folder: Path
    meta: Meta

    @property
    def id(self) -> str:
        return self.meta.id

    @cached_property
    def prompt(self) -> str:
        """Raises BadInput where its file is gone."""
        return self._text(PROMPT)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The reply's JSON schema. Raises BadInput where its file is gone or no JSON."""
        try:
            found = json.loads(self._text(SCHEMA))
        except ValueError as error:
            raise BadInput(f"{self.folder / SCHEMA} is not JSON: {error}") from None
        return dict(found)

    @property
    def state(self) -> State:
        if (self.folder / TAKEN).exists() or (self.folder / CLOSED).exists():
            return "closed"
        if any((self.folder / name).exists() for name in (GIVEN, REPLY)):
            return "answered"
        kernel = self.meta.kernel and any((self.folder / name).exists() for name in KERNELS)
        return "answered" if kernel and (self.folder / WORDS).exists() else "open"

    def _text(self, name: str) -> str:
        try:
            text = read_text(self.folder / name)
        except Unreadable as error:
            raise BadInput(f"{self.folder}: {error}") from None
        if text is None:
            raise BadInput(f"{self.folder / name} is missing")
        return text


def open_mailbox(folder: Path) -> Path:
    """Make the mailbox's folder if there is none. Raises BadInput where it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"mailbox {folder}: {why}: choose a writable folder") from None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def ask(box: Path, meta: Meta, prompt: str, schema: dict[str, Any]) -> Question:
    """Put a question into a mailbox, whole or not at all; one that is there stays as it is.

    All other open questions of the same run are closed, for a run waits for one at a time; one that
    it asks again is open again. Where a question was answered before, nothing changes.
    Raises MissingDependency where it cannot be written.
    """
    folder = box / meta.id
    if (folder / TAKEN).exists():
        return find(box, meta.id)
    for other in questions(box):
        if other.meta.run == meta.run and other.id != meta.id and other.state != "closed":
            write_new(
                other.folder / CLOSED, (f"The run is now asking another question: {meta.id}.\n")
            )
    if not folder.exists():
        _write(folder, meta, prompt, schema)
    (folder / CLOSED).unlink(missing_ok=True)
    return find(box, meta.id)


def _write(folder: Path, meta: Meta, prompt: str, schema: dict[str, Any]) -> None:
    with whole_folder(folder) as part:
        (part / PROMPT).write_text(prompt, encoding="utf-8", errors="replace")
        (part / SCHEMA).write_text(json.dumps(schema, indent=2) + "\n")
        (part / META).write_text(meta.model_dump_json(indent=2) + "\n")


def questions(box: Path) -> list[Question]:
    """All questions of a mailbox, oldest first. What is no question is left alone.

    Raises BadInput where there is no such folder.
    """
    try:
        names = sorted(path.name for path in box.iterdir())
    except FileNotFoundError:
        words = f"mailbox {box} does not exist: a run creates it with --models mailbox:{box}"
        raise BadInput(words) from None
    except OSError as error:
        raise BadInput(f"cannot read mailbox {box}: {error.strerror}") from None
    found = [question for name in names if (question := _read(box / name)) is not None]
    return sorted(found, key=lambda question: (question.meta.asked, question.id))


def waiting(box: Path, role: str | None = None, run: str | None = None) -> Iterator[Question]:
    """Questions without an answer, oldest first."""
    for question in questions(box):
        wanted = role in (None, question.meta.role) and run in (None, question.meta.run)
        if wanted and question.state == "open":
            yield question


def is_open(box: Path, name: str) -> bool:
    """Whether the question of this id is in this mailbox and has no answer."""
    question = _read(box / name) if ID.fullmatch(name) else None
    return question is not None and question.state == "open"


def find(box: Path, name: str) -> Question:
    """The question of this id. Raises BadInput."""
    question = _read(box / name) if ID.fullmatch(name) else None
    if question is None:
        questions(box)  # says so where there is no mailbox
        raise BadInput(
            f"mailbox {box} has no question '{one_line(name)[:200]}': astra-chat mailbox"
            f" list {box} lists its questions"
        )
    return question


def _read(folder: Path) -> Question | None:
    if not ID.fullmatch(folder.name) or folder.is_symlink():
        return None
    try:
        text = read_text(folder / META)
        meta = None if text is None else Meta.model_validate_json(text)
    except (Unreadable, ValidationError):
        return None
    return None if meta is None or meta.id != folder.name else Question(folder, meta)
