"""Users and models read the field's own words: what AGENTS.md lists as a word to avoid is in no
page, help text, prompt or message.

Messages are the strings of the code that hold a blank; names and keys are not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from astra_chat.cli.main import app
from tests.sources import ROOT, sources

FOLDERS = ("astra_chat/", "agents/", "tools/", "lab/")
TABLE = re.compile(r"### Words to avoid\n(.*?)\n## ", re.DOTALL)
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/gallery/*.md",
    "docs/research/*.md",
    "docs/results/*.md",
    "agents/roles/*.md",
    "tools/report/*.md",
    "transcripts/*.md",
    "astra_chat/skill/*.md",
    "astra_chat/*/templates/*.html",
    "tools/virtual_gpu/*.md",
    "tools/virtual_gpu/docs/*.md",
)
TEMPLATE = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
PLAIN = (
    "at least",
    "least recently",
    "stands for",
    "stand for",
    "stands in for",
    "stand in for",
    "written anew",
    "illegal address",
    "illegal instruction",
    "illegal memory access",
    "cases by heart",
    "No tests on whole rows, arguments in one line",
)
"""Where such a word has its plain meaning, is CUDA's own, a seed's name, a recorded run's, or in
the provenance of a shipped task, whose files recorded runs name by their hash."""


def avoided() -> dict[str, str]:
    """Each word to avoid, in lower case, and what to write instead."""
    table = TABLE.search((ROOT / "AGENTS.md").read_text())
    assert table
    rows = [line.strip("| ").split(" | ") for line in table[1].splitlines() if "`" in line]
    return {word.lower(): row[1] for row in rows for word in re.findall("`([^`]+)`", row[0])}


def offences(text: str, words: dict[str, str]) -> Iterator[str]:
    """What a text says in a word to avoid, and what to write instead."""
    plain = " ".join(text.split())
    plain = re.sub("|".join(rf"\b{re.escape(one)}\b" for one in PLAIN), "", plain, flags=re.I)
    some = "|".join(map(re.escape, words))
    for found in re.finditer(rf"(?<![-`'|])\b(?:{some})\b(?!-)", plain, re.I):
        around = plain[max(0, found.start() - 40) : found.end() + 40]
        yield f"{found[0]!r} (write: {words[found[0].lower()]}) in ...{around}..."


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that holds a blank and is no docstring."""
    tree = ast.parse(source)
    expressions = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in expressions:
            if isinstance(node.value, str) and " " in node.value.strip():
                yield node.lineno, node.value


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """Name and help of a command, of its options, and of the commands below it."""
    yield name, command.help or ""
    for option in command.params:
        yield f"{name} {option.name}", str(getattr(option, "help", None) or "")
    for below, one in getattr(command, "commands", {}).items():
        yield from helps(one, f"{name} {below}")


def found_in(texts: Iterator[tuple[str, str]]) -> list[str]:
    words = avoided()
    return [f"{where}: {offence}" for where, text in texts for offence in offences(text, words)]


def pages() -> Iterator[tuple[str, str]]:
    paths: list[Path] = sorted(path for glob in PAGES for path in ROOT.glob(glob))
    for path in paths:
        text = TEMPLATE.sub("", path.read_text())
        if path.name == "AGENTS.md" and path.parent == ROOT:
            text = TABLE.sub("", text)
        yield path.relative_to(ROOT).as_posix(), text


def test_no_page_or_prompt_has_a_word_to_avoid() -> None:
    assert not found_in(pages())


def test_no_help_text_has_a_word_to_avoid() -> None:
    texts = list(helps(get_command(app), "astra-chat"))
    assert len(texts) > 200
    assert not found_in(iter(texts))


def test_no_message_has_a_word_to_avoid() -> None:
    texts = (
        (f"{path}:{line}", text)
        for path, source in sources(FOLDERS).items()
        for line, text in messages(source)
    )
    assert not found_in(texts)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The case is judged anew.", 1),
        ("a legal\n  choice, held for the least time", 2),
        ("at least 3; `//` stands for lines left out", 0),
        ("least_bytes, illegal address, legally", 0),
    ],
)
def test_words_are_found_across_lines_and_plain_meanings_pass(text: str, count: int) -> None:
    assert len(list(offences(text, avoided()))) == count
