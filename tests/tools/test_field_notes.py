"""The texts below fields, as pydantic reads them too."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from astra_chat.tools.field_notes import field_notes
from astra_chat.tools.types import Case, Value


class Noted(Value):
    """A value whose notes pydantic reads."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    shape: int
    """Text of two
    lines."""
    plain: int = 0


class NotedMore(Noted):
    """One that extends it, and says something else of one field."""

    plain: int = 1
    """Now it has one."""
    own: int = Field(default=2, ge=0)
    """Text of its own."""


def test_notes_are_those_that_pydantic_finds() -> None:
    for kind in (Noted, NotedMore):
        found = {name: field.description for name, field in kind.model_fields.items()}
        assert field_notes(kind) == {name: text for name, text in found.items() if text}
    assert set(field_notes(NotedMore)) == {"shape", "plain", "own"}


def test_a_schema_has_them() -> None:
    fields = Case.model_json_schema()["properties"]
    assert fields["pads"]["description"] == field_notes(Case)["pads"] != ""
