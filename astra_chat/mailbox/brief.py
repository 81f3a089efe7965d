"""A question without what the same role was told before, for who has read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from astra_chat.mailbox.questions import PROMPT, Question

WORTH = 400
"""Characters of a section that is left out: a shorter one is as short as the reference to it."""
_HEADING, _FENCE = re.compile(r"#{1,6} "), re.compile(r"`{3,}|~{3,}")


def brief(question: Question, others: Iterable[Question]) -> str:
    """The prompt; a section that an earlier question of the run to the same role had in the same
    words is its heading and where it stands: in the first such question among `others`."""
    before = [
        other for other in others
        if (other.meta.run, other.meta.role) == (question.meta.run, question.meta.role)
        and other.meta.asked < question.meta.asked
    ]  # fmt: skip
    return "".join(_briefly(section, before) for section in sections(question.prompt))


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


def _briefly(section: str, before: Sequence[Question]) -> str:
    if len(section) < WORTH:
        return section
    heading = section.partition("\n")[0]
    return next(_told(section, heading, before), section)


def _told(section: str, heading: str, before: Sequence[Question]) -> Iterator[str]:
    """Where the section stands, in the words that take its place."""
    for other in before:
        if section in other.prompt and section in sections(other.prompt):
            first = other.prompt[: other.prompt.index(section)].count("\n") + 1
            last = first + section.rstrip().count("\n")
            yield f"{heading}\n\n(as before: {other.folder / PROMPT}, lines {first} to {last})\n\n"
