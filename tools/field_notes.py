"""The texts below the fields of a class, for JSON schemas and for the columns of files.

They are read when somebody asks for them: pydantic would read the source of every class in every
process.
"""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def field_notes(kind: type) -> dict[str, str]:
    """The text below each field of a class and of those that it extends, by the field's name."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if "__annotations__" in vars(one) and one.__module__.partition(".")[0] != "pydantic":
            (body,) = ast.parse(dedent(inspect.getsource(one))).body
            assert isinstance(body, ast.ClassDef)
            found |= dict(_notes(body.body))
    return found


def _notes(body: list[ast.stmt]) -> list[tuple[str, str]]:
    found = []
    for field, note in pairwise(body):
        match field, note:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found.append((name, inspect.cleandoc(text)))
    return found
