"""[binding] of a new task: what the user's function is given, by its parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from astra_chat.tools.new.draft import Draft
from astra_chat.tools.new.framework import Export
from astra_chat.tools.new.source import Parameter

_TEXT = re.compile(r"\b(string|string_view|String)\b")
_DTYPE = re.compile(r"\b(ScalarType|Dtype|DLDataType)\b")


def binding_of(export: Export, parameters: Sequence[Parameter], draft: Draft) -> dict[str, Any]:
    """The fields `binding` and `unbound` of a draft."""
    known = {t.name for t in draft.tensors} | {*draft.dims} | {s.name for s in draft.scalars}
    passed: list[object] = []
    doubts: list[str] = []
    for parameter in parameters:
        if parameter.name in known:
            passed.append(parameter.name)
            continue
        value, doubt = _value(parameter, export.schema, draft)
        passed.append(value)
        doubts += [doubt] if doubt else []
    names = {p.name for p in parameters}
    returned = [t.name for t in draft.tensors if t.name not in names and t.access == "write"]
    called = "function" if export.kind == "plain" else "operator"
    scope = [*export.function.namespaces, export.name] if called == "function" else [export.name]
    table: dict[str, object] = {called: "::".join(scope), "args": passed}
    if returned:
        table["returns"] = returned
    return {"binding": table, "unbound": tuple(doubts)}


def _value(parameter: Parameter, schema: str, draft: Draft) -> tuple[object, str]:
    """What a parameter is given that the contract does not hold, and a doubt."""
    words = f"{parameter.type} {parameter.name}"
    stated = re.search(rf'\b{parameter.name}\s*=\s*\\?"(\w*)', schema)
    default = f'"{stated[1]}"' if stated else parameter.default.strip()
    if "optional" in parameter.type.lower():
        return {}, f"nothing is passed for {words}: do your callers pass a value?"
    if _TEXT.search(parameter.type):
        text = default.strip('"') if default.startswith('"') else "auto"
        doubt = "" if default else f"the text that callers pass for {words}"
        return {"text": text}, doubt
    if _DTYPE.search(parameter.type):
        return {"dtype": next(iter(draft.variables), "float32")}, f"the dtype of {words}"
    return {}, ""
