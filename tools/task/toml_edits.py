"""Values replaced in the text of a task.toml: all other text stays, comments too."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from astra_chat.tools.task.toml_lines import Path, line_of, spans_of


def with_rows(text: str, key: str, rows: Sequence[str], comment: str) -> str:
    """The text in which `key` is the list of these rows, under a comment of its own; it replaces
    `key = [...]` and tables [[key]]."""
    lines = [f"{key} = [", f"    # {comment}", *(f"    {row}," for row in rows), "]"]
    new = "\n".join(lines)
    pairs, tables = spans_of(text)
    if (key,) in pairs:
        start, end = pairs[(key,)]
        return text[:start] + new + text[end:]
    for path, (start, end) in reversed(tables):
        if path[:1] == (key,):
            text = text[:start] + text[end:].removeprefix("\n")
    return _before_tables(text, new)


def _before_tables(text: str, new: str) -> str:
    """The new pair goes before the first header, and the comments above that."""
    _, tables = spans_of(text)
    if not tables:
        return f"{text.rstrip()}\n\n{new}\n"
    above = text[: tables[0][1][0]].splitlines(keepends=True)
    at = len(above)
    while at and above[at - 1].lstrip().startswith("#"):
        at -= 1
    head = "".join(above[:at])
    return f"{head}{new}\n\n{text[len(head) :]}"


def with_dim(text: str, name: str, dim: Mapping[str, Any]) -> str:
    """The text in which a dim has these fields: `[dims.name]`, or a line of `[dims]`."""
    pairs, _ = spans_of(text)
    fields = [f"{key} = {json.dumps(value)}" for key, value in dim.items()]
    inline = f"{name} = {{ {', '.join(fields)} }}"
    if ("dims", name) in pairs:
        start, end = pairs["dims", name]
        return text[:start] + inline + text[end:]
    own = [span for path, span in pairs.items() if path[:2] == ("dims", name)]
    if own:
        start, end = min(s for s, _ in own), max(e for _, e in own)
        return text[:start] + "\n".join(fields) + text[end:]
    raise KeyError(name)


def with_fields(text: str, place: Path, fields: Mapping[str, Any]) -> str:
    """The text in which the inline table at a place has these values: they replace its own."""
    pairs, _ = spans_of(text)
    for name in ("values", "others", "value"):
        if (*place, name) in pairs and name in fields:
            start, end = pairs[(*place, name)]
            text = f"{text[:start]}{name} = {json.dumps(fields[name])}{text[end:]}"
    pairs, _ = spans_of(text)
    for name, value in fields.items():
        if (*place, name) not in pairs:
            end = pairs[(*place, "value")][1]
            text = f"{text[:end]}, {name} = {json.dumps(value)}{text[end:]}"
            pairs, _ = spans_of(text)
    return text


def without_comments(text: str, place: Path, mark: str) -> str:
    """The text without the comments with this mark above a value, or behind it on its line."""
    lines = text.splitlines(keepends=True)
    at = (line_of(text, place) or 1) - 1
    code, found, comment = lines[at].partition("#")
    if found and mark in comment:
        lines[at] = f"{code.rstrip()}\n"
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
        if mark in lines[at]:
            del lines[at]
    return "".join(lines)


def with_pair(text: str, key: str, value: Any, after: str) -> str:
    """The text with another pair at its top level, behind the line of one that is there."""
    pairs, _ = spans_of(text)
    start, end = pairs.get((key,), (0, 0))
    pair = f"{key} = {json.dumps(value)}"
    if end:
        return text[:start] + pair + text[end:]
    at = text.index("\n", pairs[(after,)][1]) + 1
    return f"{text[:at]}{pair}\n{text[at:]}"


def loaded(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ValueError."""
    return tomllib.loads(text)
