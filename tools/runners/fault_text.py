"""Faults of the virtual GPU as a reader of the task knows them: by argument and element."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.types import ITEM_BYTES, Case
from astra_chat.tools.virtual_gpu.adapter import titled
from astra_chat.tools.wording import counted

_OUTSIDE = re.compile(
    r" at address 0x[0-9a-f]+; nearest buffer: (?P<name>\w+) of (?P<bytes>\d+) bytes,"
    r" offset (?P<offset>-?\d+)"
)
_KERNEL = re.compile(r"(?<=\bkernel )_Z\w+")
_OTHER, _EARLIER = (
    "; the other access: ",
    re.compile(r" (wrote|read|added to|changed atomically)\b"),
)
_STOPPED = re.compile(r" (read|write)s\b")
PAST = {"wrote": "written", "write": "written"}
"""What an access of a race is called in front of its place, where that is not the verb itself."""


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
    return titled(kind, message)


def _outside(name: str, at: int, length: int) -> str:
    """An element beside those of an argument: "x[1], one past the end of 1 element"."""
    if at < 0:
        return f"{name}[{at}], {counted(-at, 'element')} before its start"
    if at < length:
        return f"{name}[{at}], and reaches past the end of {counted(length, 'element')}"
    past = "one" if at == length else f"{at - length + 1:,}"
    return f"{name}[{at}], {past} past the end of {counted(length, 'element')}"


def place_text(where: str) -> str:
    """Where a fault is, with the kernel's name as its source has it: "kernel silu<__half>"."""
    return _KERNEL.sub(lambda name: kernel_name(name[0]) + template_arguments(name[0]), where)


def in_order(what: str, where: str) -> tuple[str, str]:
    """What a race is and where, with what each of its two accesses did in front of its place: first
    the earlier one, then the one that was stopped. Other faults stay as they are."""
    head, colon, other = what.partition(_OTHER)
    did, does = _EARLIER.search(head), _STOPPED.search(head)
    if not colon or did is None or does is None:
        return what, where
    first, second = (PAST.get(verb, verb) for verb in (did[1], does[1]))
    return f"{head}; {first} at {other}", f"then {second} in {where}"
