"""Untrusted text in prompts and terminals: fenced blocks, single lines, visible control characters.

Kernel text, compiler output and model replies are data that must not leave their place in a prompt.
A block is fenced by more backticks than it contains in a row; other text becomes one line. What
stands outside fences is ours, above all section titles and the last line of a prompt. In single
lines and findings, characters that a reader does not see are spelt out; sources stay as they are.
"""

from __future__ import annotations

import re

RUN = re.compile(r"`+")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Control codes but tab and line feed, what turns the direction of writing, and what takes no room:
zero-width characters and the tags by which text is hidden from readers but not from models."""
MAX_CHARACTERS = 4_000
"""Most characters of one role's words: more would crowd out the rest of a prompt."""


def plain(text: str) -> str:
    """The text with unseen characters spelt out: a terminal that shows it does nothing else."""
    return UNSEEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def fenced(text: str, kind: str = "cuda") -> str:
    """A block that ends where we end it, whatever the text says."""
    longest = max((len(run) for run in RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{kind}\n{text}{end}{fence}"


def one_line(text: str) -> str:
    """Words that begin no line of their own, and are not endless."""
    line = plain(" ".join(text.split()))
    if len(line) <= MAX_CHARACTERS:
        return line
    return f"{line[:MAX_CHARACTERS]} ... ({len(line) - MAX_CHARACTERS:,} characters left out)"


def report(text: str) -> str:
    """A finding: its first line is the judge's, what follows may quote compiler or kernel."""
    first, _, rest = text.partition("\n")
    if not rest.strip():
        return one_line(first)
    return f"{one_line(first)}\n{fenced(plain(rest), 'text')}"
