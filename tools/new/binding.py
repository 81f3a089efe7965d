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
_LIST = r"(?:vector|ArrayRef|List|Array)"
_NUMBERS = re.compile(rf"\b(\w*IntArrayRef\b|{_LIST}<[\w:]*\b(int64_t|int|long|SymInt)>)")
_TENSORS = re.compile(rf"\bTensorList\b|\b{_LIST}<(.*{_LIST}<)?[\w:]*\bTensor>")
LISTED_SIZE = "numel"
"""The dim that tensors in a list have."""


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
    table: dict[str, object] = {called: export.spelt or "::".join(scope), "args": passed}
    if returned:
        table["returns"] = returned
    return {"binding": table, "unbound": tuple(doubts)}


def is_number_list(parameter: Parameter) -> bool:
    return _NUMBERS.search(parameter.type) is not None


def names_in_list(parameter: Parameter, lists: int = 1) -> list[str]:
    """Names for the tensors that a parameter holds, a list of two or lists of one each; none where
    it is no list."""
    if not (found := _TENSORS.search(parameter.type)):
        return []
    return [f"{parameter.name}_{at}" for at in range(lists if found[1] else 2)]


def _value(parameter: Parameter, schema: str, draft: Draft) -> tuple[object, str]:
    """What a parameter is given that the contract does not hold, and a doubt."""
    words = f"{parameter.type} {parameter.name}"
    stated = re.search(rf'\b{parameter.name}\s*=\s*\\?"(\w*)', schema)
    default = f'"{stated[1]}"' if stated else parameter.default.strip()
    if is_number_list(parameter):
        return {"list": [1]}, f"the numbers that callers pass for {words}"
    if held := _TENSORS.search(parameter.type):
        names = [t.name for t in draft.tensors if re.fullmatch(rf"{parameter.name}_\d+", t.name)]
        given = [[name] for name in names] if held[1] else names
        return {"tensors": given}, f"as many tensors as callers pass for {words}"
    if "optional" in parameter.type.lower():
        return {}, f"no value is passed for {words}: do your callers pass one?"
    if _TEXT.search(parameter.type):
        text = default.strip('"') if default.startswith('"') else "auto"
        doubt = "" if default else f"the text that callers pass for {words}"
        return {"text": text}, doubt
    if _DTYPE.search(parameter.type):
        return {"dtype": next(iter(draft.variables), "float32")}, f"the dtype of {words}"
    return {}, ""
