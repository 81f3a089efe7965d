"""Docstrings and notes behind fields and constants have a subject: a reader sees them alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.sources import TESTS, sources

FOLDERS = ("astra_chat", "agents", "tools", "sglang_kernels", "lab", *TESTS)
OPENINGS = re.compile(r"(?:Of|By|As|And|The same)\b")
"""Words that lean on what stands before."""


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each string that stands alone as a statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, node.value.value.strip()


def offenders() -> Iterator[str]:
    for name, source in sources(FOLDERS).items():
        for line, text in texts(ast.parse(source)):
            if OPENINGS.match(text):
                yield f"{name}:{line}: {text.splitlines()[0]}"


def test_docstrings_have_a_subject() -> None:
    found = list(offenders())
    assert not found, "\n".join(found)
