"""The docstring of a folder's `__init__` is its table of contents: it names every module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("agents", "astra_chat", "tools", "lab")


def missing_entries(init: Path) -> list[str]:
    """Modules (`name` or `name.py`) and subfolders (`name/`) that the docstring does not name."""
    docstring = ast.get_docstring(ast.parse(init.read_text())) or ""
    words = set(re.findall(r"[\w/]+", docstring))
    modules = {p.stem for p in init.parent.glob("*.py")} - {"__init__", "__main__"}
    folders = {f"{p.parent.name}/" for p in init.parent.glob("*/__init__.py")}
    return sorted((modules | folders) - words)


def test_every_module_is_in_its_folders_table_of_contents() -> None:
    inits = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("__init__.py"))]
    offenders = {
        str(p.relative_to(ROOT)): missing for p in inits if (missing := missing_entries(p))
    }
    assert not offenders


def test_a_missing_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""Two modules.\n\nfirst   one\n"""\n')
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text('"""A module."""\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__init__.py").write_text('"""A folder."""\n')
    assert missing_entries(tmp_path / "__init__.py") == ["folder/", "second"]
