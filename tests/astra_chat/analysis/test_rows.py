"""Columns of the tables: docs/columns.md lists each with its type and meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from astra_chat.analysis.rows import CaseRow, EvaluationRow, RoundRow, RunColumns, TurnRow
from astra_chat.tools.field_notes import field_notes
from astra_chat.tools.types import Value

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "columns.md"
TABLES: dict[str, tuple[type[Value], type[Value] | None]] = {
    "Every row": (RunColumns, None),
    "Evaluations": (EvaluationRow, RunColumns),
    "Cases": (CaseRow, None),
    "Rounds": (RoundRow, RunColumns),
    "Turns": (TurnRow, RunColumns),
}
"""Row and the row that it extends, by the heading of its table."""


def type_name(annotation: Any) -> str:
    """ "float or none", "list of CaseRow"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return f"list of {arguments[0].__name__}"
    if type(None) in arguments:
        return f"{type_name(arguments[0])} or none"
    return "text" if origin is Literal or annotation is str else str(annotation.__name__)


def table(kind: type[Value], base: type[Value] | None) -> str:
    """The table of a row's own columns, as the document has it."""
    lines, notes = ["| column | type | meaning |", "|---|---|---|"], field_notes(kind)
    for name, field in kind.model_fields.items():
        if base is None or name not in base.model_fields:
            shown = (
                type_name(field.annotation).replace(" | None", " or none").replace("str", "text")
            )
            words = " ".join(notes.get(name, "").split()).replace("|", "/")
            lines.append(f"| `{name}` | {shown} | {words} |")
    return "\n".join(lines)


@pytest.mark.parametrize("heading", TABLES)
def test_every_column_is_documented(heading: str) -> None:
    expected = table(*TABLES[heading])
    assert f"## {heading}\n\n{expected}\n" in DOCUMENT.read_text(), f"it should say\n{expected}"
