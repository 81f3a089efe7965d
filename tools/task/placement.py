"""Where the arguments of a call lie: its blocks of device memory, and each argument's place in one.

All that makes, replays, checks or times calls asks `layout`, so arguments lie in the same way
everywhere. A contract names arguments that are views of one buffer (`packed`) or may be passed by
one pointer (`same`); a case says whether they lie so in it (tools/case.py, Packed). An absent
argument takes no room: those behind it close up.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from astra_chat.tools.case import PACKED_TEXT
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.groups import Group, in_rows
from astra_chat.tools.task.spans import buffer_bytes
from astra_chat.tools.types import ITEM_BYTES, Case

ALLOCATION_BYTES = 512
"""Addresses of neighbouring allocations are multiples of this, as those of torch's allocator."""


class Grouped(Protocol):
    """A launcher's arguments, and which of them callers pass together."""

    @property
    def args(self) -> tuple[Arg, ...]: ...
    @property
    def packed(self) -> tuple[Group, ...]: ...
    @property
    def same(self) -> tuple[Group, ...]: ...


@dataclass(frozen=True)
class MemoryBlock:
    """A stretch of device memory that moves as a whole."""

    members: tuple[int, ...]
    """Numbers of the arguments that lie in it."""
    bytes: int
    shift: int
    """Bytes from a multiple of 256 to its first byte."""
    one: bool
    """It is one allocation; else each member has one, directly behind that of the one before."""

    @property
    def mixed(self) -> bool:
        """Whether what lies between the elements of one argument may belong to another."""
        return self.one and len(self.members) > 1


@dataclass(frozen=True)
class Layout:
    """The device memory of one call."""

    args: tuple[Arg, ...]
    case: Case
    blocks: tuple[MemoryBlock, ...]
    places: tuple[tuple[int, int], ...]
    """Place of each argument: the number of its block, and bytes to its first element in it."""

    def span(self, index: int) -> slice:
        """Bytes of an argument's buffer in its block."""
        start = self.places[index][1]
        return slice(start, start + buffer_bytes(self.args[index], self.case))


@dataclass(frozen=True)
class _Together:
    """Arguments of one block: their numbers, and where in it each begins."""

    members: tuple[int, ...]
    starts: tuple[int, ...]
    one: bool = True


def layout(contract: Grouped, case: Case) -> Layout:
    """Where the arguments of a legal case lie."""
    args, together = contract.args, _together(contract, case)
    placed = {index for some in together for index in some.members}
    alone = [_Together((i,), (0,)) for i in range(len(args)) if i not in placed]
    together = sorted([*together, *alone], key=lambda some: min(some.members))
    blocks, places = list[MemoryBlock](), dict[int, tuple[int, int]]()
    for number, some in enumerate(together):
        pairs = list(zip(some.members, some.starts, strict=True))
        end = max(start + buffer_bytes(args[index], case) for index, start in pairs)
        shift = args[some.members[0]].shift_of(case) if some.one else 0
        blocks.append(MemoryBlock(some.members, end, shift, some.one))
        places |= {index: (number, start) for index, start in pairs}
    return Layout(args, case, tuple(blocks), tuple(places[i] for i in range(len(args))))


def _together(contract: Grouped, case: Case) -> list[_Together]:
    args = contract.args
    if case.packed == "neighbours":
        return _neighbours(args, case)
    if case.packed == "same":
        groups = (_present(args, group, case) for group in contract.same)
        return [_Together(some, (0,) * len(some)) for some in groups if len(some) > 1]
    groups = (_present(args, group, case) for group in contract.packed)
    able = [some for some in groups if len(some) > 1]
    if case.packed == "tensors":
        return [_Together(some, _behind(args, some, case)) for some in able]
    if case.packed == "apart":
        return []
    return [_Together(some, _beside(args, some, case)) for some in able if _fits(args, some, case)]


def _present(args: Sequence[Arg], group: Group, case: Case) -> tuple[int, ...]:
    """Numbers of a group's arguments that have elements."""
    numbers = {arg.name: number for number, arg in enumerate(args)}
    some = (numbers[name] for name in group.args)
    return tuple(number for number in some if buffer_bytes(args[number], case))


def _neighbours(args: Sequence[Arg], case: Case) -> list[_Together]:
    """All arguments in an order of the case's own, each where the next allocation may begin. The
    order is that of all cases that differ in their numbers alone: they share their buffers."""
    some = [number for number, arg in enumerate(args) if buffer_bytes(arg, case)]
    random.Random(f"{case.dims} {case.dtype} {case.pads}").shuffle(some)
    starts, end = list[int](), 0
    for number in some:
        starts.append(_up(end, ALLOCATION_BYTES) + args[number].shift_of(case))
        end = starts[-1] + buffer_bytes(args[number], case)
    return [_Together(tuple(some), tuple(starts), one=False)] if len(some) > 1 else []


def _behind(args: Sequence[Arg], some: Sequence[int], case: Case) -> tuple[int, ...]:
    """Where whole tensors begin that lie one behind the other."""
    starts, end = list[int](), 0
    for number in some:
        starts.append(_up(end, _alignment(args[number], case)))
        end = starts[-1] + buffer_bytes(args[number], case)
    return tuple(starts)


def _beside(args: Sequence[Arg], some: Sequence[int], case: Case) -> tuple[int, ...]:
    """Where tensors begin whose rows lie beside each other."""
    starts, end = list[int](), 0
    for number in some:
        starts.append(_up(end, _alignment(args[number], case)))
        end = starts[-1] + _row_bytes(args[number], case)
    return tuple(starts)


def _row_bytes(arg: Arg, case: Case) -> int:
    """Bytes of one entry of the first axis, what lies between heads included."""
    shape, strides = arg.shape_of(case)[1:], arg.strides_of(case)[1:]
    item = ITEM_BYTES[arg.dtype_of(case)]
    return item * max((n * s for n, s in zip(shape, strides, strict=True)), default=1)


def _fits(args: Sequence[Arg], some: Sequence[int], case: Case) -> bool:
    """Whether the strides are those of rows beside each other."""
    members = [args[number] for number in some]
    if not in_rows(members):
        return False
    item = ITEM_BYTES[members[0].dtype_of(case)]
    strides = {arg.strides_of(case)[0] * item for arg in members}
    end = _beside(args, some, case)[-1] + _row_bytes(members[-1], case)
    return len(strides) == 1 and end <= strides.pop()


def placement_flaw(contract: Grouped, case: Case) -> str:
    """Why the arguments of a case whose other fields are legal cannot lie as it says, or ""."""
    if case.packed in ("", "apart", "neighbours"):
        return ""
    groups = contract.same if case.packed == "same" else contract.packed
    field = "same" if case.packed == "same" else "packed"
    says = f'packed = "{case.packed}" ({PACKED_TEXT[case.packed]})'
    if not groups:
        return f"{says} requires a contract that lists arguments as {field}; this one lists none"
    several = [some for g in groups if len(some := _present(contract.args, g, case)) > 1]
    if not several:
        return f"{says}: fewer than two of the arguments listed as {field} have elements"
    if case.packed == "rows":
        return _flaw_of_rows(contract.args, several, case, says)
    return _flaw_of_same(contract.args, several, case, says) if case.packed == "same" else ""


def _flaw_of_rows(
    args: Sequence[Arg], several: Sequence[Sequence[int]], case: Case, says: str
) -> str:
    able = [some for some in several if in_rows([args[number] for number in some])]
    if not able:
        return f"{says} requires arguments whose first stride is free"
    for some in able:
        if not _fits(args, some, case):
            strides = ", ".join(f"{args[n].name} {args[n].strides_of(case)[0]}" for n in some)
            item = ITEM_BYTES[args[some[0]].dtype_of(case)]
            end = _beside(args, some, case)[-1] + _row_bytes(args[some[-1]], case)
            least = f"equal strides from row to row, of at least {end // item} elements"
            return f"{says} needs {least}: {strides}"
    return ""


def _flaw_of_same(
    args: Sequence[Arg], several: Sequence[Sequence[int]], case: Case, says: str
) -> str:
    for some in several:
        if len({args[number].strides_of(case) for number in some}) > 1:
            return f"{says}: {' and '.join(args[n].name for n in some)} must have equal strides"
    return ""


def packed_pads(contract: Grouped, case: Case, then: Sequence[int] = ()) -> Case:
    """The case with paddings by which rows lie beside each other; `then`: for each group the
    elements of a row that follow its last argument."""
    pads = dict(case.pads)
    for at, group in enumerate(contract.packed):
        some = _present(contract.args, group, case)
        members = [contract.args[number] for number in some]
        if len(some) < 2 or not in_rows(members):
            continue
        item = ITEM_BYTES[members[0].dtype_of(case)]
        end = (_beside(contract.args, some, case)[-1] + _row_bytes(members[-1], case)) // item
        step = math.lcm(*(arg.stride_step(case) for arg in members))
        stride = _up(end + (then[at] if at < len(then) else 0), step)
        for arg in members:
            own = (stride - _row_bytes(arg, case) // item, *arg.pads_of(case)[1:])
            pads[arg.name] = own[0] if len(own) == 1 else own
    return case.model_copy(update={"pads": pads, "packed": "rows"})


def then_of(contract: Grouped, group: Group, case: Case) -> int:
    """Elements of each row that callers have behind the last argument of a group."""
    return evaluate(group.then, contract.args[0].names_in(case))


def _alignment(arg: Arg, case: Case) -> int:
    """Bytes of which any address of its first element is a multiple."""
    return math.lcm(arg.min_alignment_bytes, ITEM_BYTES[arg.dtype_of(case)])


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
