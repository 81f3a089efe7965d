"""The commands of the documents' code blocks, in their order: for walk_docs.

A command is a line of an indented block that begins with a program, a fenced block of bash, or all
fenced blocks of Python of a page, as one program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/*.md",
    "transcripts/README.md",
    "tools/virtual_gpu/README.md",
    "tools/virtual_gpu/docs/*.md",
    "docs/research/*.md",
)
PROGRAM = re.compile(
    r"(?:[A-Z_]+=(?:\"[^\"]*\"|\S+) )*(?:taskset \S+ \S+ )?(?:\./|\.venv/bin/)?"
    r"(?:astra-chat|astra-vgpu(?:-nvcc)?|python|make|cmake|git|pip|ray|export|pytest|build/app) "
)
"""The start of a line that is a command, not a file's text or what a program prints."""
OPTIONS = re.compile(r"--(?:models|base-url|budget) ")
"""The start of a line that shows options of `astra-chat run`."""
PIECE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$|^((?: {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(astra-chat run TASK --approve)`")
"""The command within a sentence that no block has."""
COMMENT = re.compile(r"\s+# .*$|\s{4,}[^-\s].*$")
"""What follows a command on its line: a comment, or text set apart."""


@dataclass(frozen=True)
class DocCommand:
    """One command of a page."""

    page: str
    text: str
    language: str = "bash"

    @property
    def title(self) -> str:
        """The command on one line; of a longer block its first line and the text's sha256."""
        lines = self.text.strip().splitlines()
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:6]
        more = f" ... ({len(lines)} lines, {digest})" if len(lines) > 1 else ""
        return lines[0] + more


def pages() -> list[str]:
    found = (path for glob in PAGES for path in sorted(ROOT.glob(glob)))
    return [path.relative_to(ROOT).as_posix() for path in found]


def commands(page: str, text: str) -> Iterator[DocCommand]:
    """All commands of a page's text."""
    yield from (DocCommand(page, line) for line in INLINE.findall(text))
    python = [block for language, block, _ in PIECE.findall(text) if language == "python"]
    for language, block, indented in PIECE.findall(text):
        if language == "bash":
            yield DocCommand(page, block)
        elif language == "python" and python:
            yield DocCommand(page, "".join(python), "python")
            python = []
        yield from (DocCommand(page, line) for line in _lines(indented))


def _lines(indented: str) -> Iterator[str]:
    """Commands of an indented block."""
    joined = re.sub(r"\\\n\s*", "", indented)
    for line in (raw.strip() for raw in joined.splitlines()):
        if OPTIONS.match(line):
            yield f"astra-chat run TASK {COMMENT.sub('', line)}"
        elif PROGRAM.match(f"{line} "):
            yield COMMENT.sub("", line)
