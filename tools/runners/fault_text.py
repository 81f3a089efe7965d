"""Faults of the virtual GPU as a reader of the task knows them: by argument and element."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import ITEM_BYTES, Case
from astra_chat.tools.wording import counted

_OUTSIDE = re.compile(
    r" at address 0x[0-9a-f]+; nearest buffer: (?P<name>\w+) of (?P<bytes>\d+) bytes,"
    r" offset (?P<offset>-?\d+)"
)


def item_bytes(args: Sequence[Arg], case: Case) -> dict[str, int]:
    """Bytes of an element of each argument, by its name."""
    return {arg.name: ITEM_BYTES[arg.dtype_of(case)] for arg in args}


def fault_text(kind: str, message: str, items: Mapping[str, int]) -> str:
    """Kind and message, the kind only where the message does not begin with it. `items`:
    item_bytes."""
    place = _OUTSIDE.search(message)
    item = items.get(place["name"], 0) if place else 0
    if place and item and int(place["offset"]) % item == 0:
        name, at = place["name"], int(place["offset"]) // item
        there = _outside(name, at, int(place["bytes"]) // item)
        message = message[: place.start()] + f" at {there}" + message[place.end() :]
    head, colon, _ = message.partition(": ")
    return message if colon and head.endswith(kind) else f"{kind}: {message}"


def _outside(name: str, at: int, length: int) -> str:
    """An element beside those of an argument: "x[1], one past the end of 1 element"."""
    if at < 0:
        return f"{name}[{at}], {counted(-at, 'element')} before its start"
    if at < length:
        return f"{name}[{at}], and reaches past the end of {counted(length, 'element')}"
    past = "one" if at == length else f"{at - length + 1:,}"
    return f"{name}[{at}], {past} past the end of {counted(length, 'element')}"
