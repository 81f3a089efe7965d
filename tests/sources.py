"""The source files of the repository by their paths in it; the links in astra_chat/ are not
followed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINKS = ("astra_chat/tools/", "astra_chat/agents/", "astra_chat/sglang_kernels/")


def sources(folders: Iterable[str]) -> dict[str, str]:
    """Text of every Python file in these folders of the repository, sorted within each."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path.read_text() for name, path in named.items() if not name.startswith(LINKS)}
