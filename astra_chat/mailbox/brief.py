"""A question without what the same role was told before, for who has read it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from astra_chat.mailbox.questions import PROMPT, Question

WORTH = 400
"""Characters of a section that is left out: a shorter one is as short as the reference to it."""
_HEADING, _FENCE = re.compile(r"#{1,6} "), re.compile(r"`{3,}|~{3,}")


def brief(question: Question, others: Iterable[Question]) -> str:
    """The prompt; a section that an earlier question of the run to the same role had in the same
    words is its heading and where it stands: in the first such question among `others`."""
    places: dict[str, str] = {}
    for other in others:
        same = (other.meta.run, other.meta.role) == (question.meta.run, question.meta.role)
        if same and other.meta.asked < question.meta.asked:
            for section, place in _places(other).items():
                places.setdefault(section, place)
    return "".join(
        f"{section.splitlines()[0]}\n\n(as before: {places[section]})\n\n"
        if len(section) >= WORTH and section in places
        else section
        for section in sections(question.prompt)
    )


def _places(question: Question) -> dict[str, str]:
    """Returns where each section of a question's prompt stands: file and lines, by its text."""
    places, line = dict[str, str](), 1
    for section in sections(question.prompt):
        last = line + section.rstrip().count("\n")
        places.setdefault(section, f"{question.folder / PROMPT}, lines {line} to {last}")
        line += section.count("\n")
    return places


def sections(text: str) -> list[str]:
    """Markdown cut before each heading, of any level; joined it is `text` again. A line of a fenced
    block is no heading."""
    parts, fence = [""], ""
    for line in text.splitlines(keepends=True):
        if not fence and _HEADING.match(line):
            parts.append("")
        elif mark := _FENCE.match(line):
            if not fence:
                fence = mark[0]
            elif line.strip() == fence:
                fence = ""
        parts[-1] += line
    return [part for part in parts if part]
