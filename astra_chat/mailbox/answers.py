"""Answers to a question: given once, taken once, and never lost.

`mailbox answer` puts given.json there in one piece. Whoever writes by hand leaves reply.json, or
kernel.cu (in Triton kernel.py) and words.md; those may be seen half written, so they count once
they are whole.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from astra_chat.mailbox.files import Unreadable, read_text, write_new
from astra_chat.mailbox.questions import (
    ANSWERED_BY,
    CLOSED,
    GIVEN,
    KERNELS,
    REPLY,
    TAKEN,
    WORDS,
    Question,
    now,
)
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput

SETTLED_S = 2.0
"""A file by hand that has not changed for so long is whole."""
NAME_CHARACTERS = 200
REFUSED = "refused-{}.json"


class GivenAnswer(Value):
    """An answer as it was given: given.json, and as it was taken: taken.json."""

    reply: str
    answered_by: str = Field("", max_length=NAME_CHARACTERS)
    at: str = ""
    """UTC, ISO 8601."""


class Refused(Value):
    """An answer that `mailbox answer` did not accept, kept beside the question."""

    why: str
    reply: str
    answered_by: str = ""


@dataclass(frozen=True)
class Taken:
    """An answer that the run uses."""

    reply: str
    answered_by: str
    refused: int
    """Answers that were refused before it."""
    again: bool
    """It was taken before, by a session that ended before the turn did."""


def kernel_reply(words: str, source: str) -> str:
    """A kernel as the reply that the chat reads."""
    return json.dumps({"reply": {"kind": "kernel", "words": words.strip(), "source": source}})


def name_of(text: str) -> str:
    """Who answered, in one bounded line."""
    return one_line(text)[:NAME_CHARACTERS]


def require_open(question: Question) -> None:
    """Raise BadInput where an answer is there already, or none is wanted any more."""
    folder = question.folder
    if (folder / TAKEN).exists():
        raise BadInput(
            f"question {question.id} is closed: the run has already taken an answer to it"
        )
    if (folder / CLOSED).exists():
        raise BadInput(f"question {question.id} is closed: the run has since asked another")
    if question.state != "open":
        raise BadInput(f"question {question.id} already has an answer, which the run will take")


def give(question: Question, reply: str, answered_by: str = "") -> None:
    """Leave an answer for the run to take. Of two at the same time the first counts.

    Raises BadInput as `require_open`, and MissingDependency where it cannot be written.
    """
    require_open(question)
    given = GivenAnswer(reply=reply, answered_by=name_of(answered_by), at=now())
    if not write_new(question.folder / GIVEN, given.model_dump_json(indent=2) + "\n"):
        require_open(question)


def refuse(question: Question, reply: str, why: str, answered_by: str = "") -> None:
    """Keep an answer that cannot be used, with the reason."""
    refused = Refused(why=why, reply=reply, answered_by=name_of(answered_by))
    number = _refused(question.folder) + 1
    while not write_new(question.folder / REFUSED.format(number), refused.model_dump_json()):
        number += 1


def take(question: Question) -> Taken | None:
    """The answer to a question, which is closed by that; None while there is none.

    Raises Unreadable where what is there cannot be an answer, MissingDependency where the disk
    does not take the note that it was taken.
    """
    before = _given(question.folder / TAKEN)
    if before is not None:
        return _taken(question, before, again=True)
    given = _given(question.folder / GIVEN) or _by_hand(question)
    if given is None:
        return None
    write_new(question.folder / TAKEN, given.model_dump_json(indent=2) + "\n")
    return _taken(question, given, again=False)


def _taken(question: Question, given: GivenAnswer, again: bool) -> Taken:
    by = name_of(given.answered_by)
    return Taken(given.reply, by, _refused(question.folder), again)


def _refused(folder: Path) -> int:
    return sum(1 for _ in folder.glob(REFUSED.format("*")))


def _given(path: Path) -> GivenAnswer | None:
    text = read_text(path)
    if text is None:
        return None
    try:
        return GivenAnswer.model_validate_json(text)
    except ValidationError:
        raise Unreadable(f"{path.name} was not written by `astra-chat mailbox answer`") from None


def _by_hand(question: Question) -> GivenAnswer | None:
    """Raises Unreadable for two answers: nobody but their writers knows which one counts."""
    folder = question.folder
    reply = read_text(folder / REPLY)
    there = [n for n in KERNELS if question.meta.kernel and (folder / n).exists()]
    if len(given := [REPLY] * (reply is not None) + there) > 1:
        raise Unreadable(f"{' and '.join(given)} are two answers: delete one")
    source = read_text(folder / there[0]) if there else None
    words = read_text(folder / WORDS) if source is not None else None
    text = None
    if reply is not None and (_is_whole_json(reply) or _settled(folder / REPLY)):
        text = reply
    if source is not None and words is not None and _settled(folder / there[0], folder / WORDS):
        text = kernel_reply(words, source)
    if text is None:
        return None
    by = read_text(folder / ANSWERED_BY) or ""
    return GivenAnswer(reply=text, answered_by=name_of(by), at=now())


def _is_whole_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _settled(*paths: Path) -> bool:
    """Whether nobody has written to them lately."""
    try:
        return all(time.time() - path.stat().st_mtime >= SETTLED_S for path in paths)
    except OSError:  # it is being replaced
        return False
