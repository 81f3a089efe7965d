"""Small wording for people: numbers with their nouns, lists, the name that was meant."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

QUOTED = re.compile(r"'([^']*)'")
ALIKE, ALIKE_BEGUN = 0.7, 0.5
"""Least similarity of two names of which one may be a typo of the other; of names with the same
first letter."""


def counted(number: int, what: str, several: str = "") -> str:
    """ "1 case", "1,234 cases"; `several`: the plural, where it is not `what` with an s."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def listed(names: Iterable[str]) -> str:
    """ "a", "a or b", "a, b or c"."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that a mistyped one most likely means; "" where none is like it."""
    by_lower = {one.lower(): one for one in known}
    written = name.lower()
    begun = [one for one in by_lower if one[:1] == written[:1]]
    near = get_close_matches(written, list(by_lower), 1, ALIKE)
    near = near or get_close_matches(written, begun, 1, ALIKE_BEGUN)
    return by_lower[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean X?", or "" where no known name is like it."""
    meant = nearest(name, known)
    return f"; did you mean {meant}?" if meant else ""


def choices(name: str, known: Iterable[str]) -> str:
    """ ": use a, b or c; did you mean a?"."""
    names = list(known)
    return f": use {listed(names)}{did_you_mean(name, names)}"


def invalid(problem: Mapping[str, Any], known: Iterable[str] = ()) -> str:
    """What pydantic found wrong with a value, as a user reads it. `problem`: one of `errors()`;
    `known`: the keys that there are beside it."""
    value, text = problem["input"], str(problem["msg"])
    match problem["type"]:
        case "extra_forbidden":
            name, names = str(problem["loc"][-1]), list(known)
            hint = did_you_mean(name, names) or (names and f"; the keys are {', '.join(names)}")
            return f"unknown key {name}{hint or ''}"
        case "missing":
            return "it is missing"
        case "literal_error":
            expected = str(problem["ctx"]["expected"])
            names = [name for name in QUOTED.findall(expected) if name]
            hint = did_you_mean(str(value), names)
            return f"it must be {listed(names) if names else expected}{hint}"
    if is_nan(value):
        return "it is not a number"
    return text.removeprefix("Value error, ").replace("Input", "it", 1)


def is_nan(value: object) -> bool:
    """Whether it is a NaN, or the text of one."""
    try:
        return isinstance(value, float | str) and math.isnan(float(value))
    except ValueError:
        return False
