"""Stores close enough in the machine code for L1 to merge them (lowering/store_merging.py)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_vgpu.sass.disassembly import MachineInstruction
from astra_vgpu.sass.functional_units import unit_of

CLOSE = 3
"""Instructions between two stores of a warp that others' stores do not come between, if none of
them waits for the unit of special functions (H200: two additions between cost nothing, two
conversions from integers nearly all)."""
_REACH = 32
"""Bytes from one store to the next beyond which no lane meets its own sector again."""
_PLACE = re.compile(r"\[(U?R\d+[^\]+]*(?:\+UR\d+)?)(?:\+(-?0x[0-9a-f]+))?\],")
_WAITS = frozenset("LDG LD ATOM ATOMG RED REDG BAR MEMBAR LDGSTS WARPSYNC CALL".split())


def follow(code: Sequence[MachineInstruction]) -> tuple[int, int]:
    """Counts the stores of a basic block that are close behind another to the same place, and all
    that have one before them with no load between."""
    close = behind = between = 0
    waits = False
    slow: set[int] = set()
    before: tuple[str, str, int] | None = None
    for instruction in code:
        place = _place(instruction)
        waits |= not slow.isdisjoint(instruction.waits)
        slow.discard(instruction.result_board)
        if unit_of(instruction) == "xu":
            slow.add(instruction.result_board)
        if place is not None:
            if before is not None and place[:2] == before[:2]:
                near = abs(place[2] - before[2]) <= _REACH
                behind += near
                close += near and between <= CLOSE and not waits
            before, between, waits = place, 0, False
        elif instruction.name in _WAITS:
            before = None
        else:
            between += 1
    return close, behind


def _place(instruction: MachineInstruction) -> tuple[str, str, int] | None:
    """Guard, base and offset of a store to global memory."""
    match = _PLACE.search(instruction.operands) if instruction.name in ("STG", "ST") else None
    if match is None:
        return None
    return instruction.guard, match[1], int(match[2] or "0", 16)
