"""What differs between a request that was recorded and one that was not, in one line."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

MAX_LINES = 4
LONGEST_LINE = 100


def nearest(request: dict[str, Any], recorded: Sequence[dict[str, Any]]) -> int:
    """Index of the recorded request that has the most lines in common with this one."""
    wanted = Counter(_lines(request))

    def distance(other: dict[str, Any]) -> int:
        lines = Counter(_lines(other))
        return (wanted - lines).total() + (lines - wanted).total()

    return min(range(len(recorded)), key=lambda number: distance(recorded[number]))


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first message, else the first field, in which two requests differ, and how."""
    old, new = before.get("messages", []), after.get("messages", [])
    for number, (one, other) in enumerate(zip(old, new, strict=False), 1):
        if one != other:
            who = one.get("type", "message")
            return f"message {number} ({who}) differs: {changes(_text(one), _text(other))}"
    if len(old) != len(new):
        return f"it has {len(new)} messages, but the recorded one has {len(old)}"
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    name = names[0]
    return f"'{name}' differs: {changes(_text(before.get(name)), _text(after.get(name)))}"


def changes(before: str, after: str) -> str:
    """Lines that are gone ("- ...") and lines that came ("+ ..."), the first few, each cut."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    found = [line for line in list(diff)[2:] if not line.startswith("@@")]
    shown = [f"{line[0]} {_cut(line[1:].strip())!r}" for line in found[:MAX_LINES]]
    rest = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more lines" if rest > 0 else "")


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."


def _lines(request: dict[str, Any]) -> list[str]:
    messages = [line for one in request.get("messages", []) for line in _text(one).splitlines()]
    rest = {name: value for name, value in request.items() if name != "messages"}
    return messages + _text(rest).splitlines()


def _text(value: Any) -> str:
    """A message's own text, else the value as indented JSON."""
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        return str(value["content"])
    return value if isinstance(value, str) else json.dumps(value, indent=1, sort_keys=True)
