"""Control flow of machine code: basic blocks and natural loops (Aho et al., Compilers, 9.6)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_vgpu.sass.disassembly import MachineInstruction, MachineKernel

_TARGET = re.compile(r"`\(([^)]+)\)|(\.L_\w+)")
"""A branch's target, as branches name one and as tables list them."""
_JUMPS, _TABLES = ("BRA", "JMP"), ("BRX", "JMX")
_ENDS = (*_JUMPS, *_TABLES, "EXIT", "RET", "BREAK", "BSYNC")
_PARTED = "BRA.DIV"
"""Branch to a slow path of warps that are not whole."""
_OWN = "$__internal_"
"""How names of the compiler's own functions begin; those of the source begin with the kernel's."""


@dataclass(frozen=True)
class MachineBlock:
    instructions: tuple[MachineInstruction, ...]
    successors: tuple[int, ...]
    rare: bool
    """Taken not to run: slow paths, for numbers out of the ordinary and for warps whose lanes have
    parted, and the compiler's functions behind the kernel's own code."""


class CallsOwnFunction(ValueError):
    """A function of the source was not inlined: what a call of it takes is not worked out here."""


@dataclass(frozen=True)
class Loop:
    head: int
    members: frozenset[int]
    """Blocks of the loop, the head among them."""


def basic_blocks(kernel: MachineKernel) -> tuple[MachineBlock, ...]:
    """Basic blocks in the order of the text; a call is an instruction like others.

    Raises CallsOwnFunction: calls of the compiler's functions alone are understood.
    """
    code, labels = kernel.instructions, kernel.labels
    named = functions_behind(kernel)
    if own_function := next((name for name in named if not name.startswith(_OWN)), None):
        raise CallsOwnFunction(own_function)
    functions = list(named.values())
    starts = {0, *functions}
    for at, instruction in enumerate(code):
        if instruction.name in (*_JUMPS, *_TABLES, "BSSY"):
            starts.update(_targets(instruction, labels))
        if instruction.name in _ENDS:
            starts.add(at + 1)
    order = sorted(start for start in starts if start < len(code))
    number = {start: n for n, start in enumerate(order)}
    bounds = list(zip(order, [*order[1:], len(code)], strict=True))
    leads = [_successors(code[end - 1], labels, number, end) for _, end in bounds]
    met = {n: _meeting(code[a:b], labels, number) for n, (a, b) in enumerate(bounds)}
    reached = _reached(leads, met)
    own = min(functions, default=len(code))
    return tuple(
        MachineBlock(
            code[start:end],
            leads[n],
            rare=n not in reached or start >= own or any(map(_is_slow, code[start:end])),
        )
        for n, (start, end) in enumerate(bounds)
    )


def functions_behind(kernel: MachineKernel) -> dict[str, int]:
    """Returns where each function behind a kernel's own code begins, by its label: those of the
    source that were not inlined, and the compiler's."""
    return {name: at for name, at in kernel.labels.items() if name.startswith("$")}


def loops(blocks: Sequence[MachineBlock]) -> list[Loop]:
    """Loops, the largest first: of two that share blocks, the outer one stands before the inner
    one."""
    before = predecessors(blocks)
    members: dict[int, set[int]] = {}
    for number, head in back_edges(blocks):
        if not blocks[number].rare:
            _add_body(members.setdefault(head, {head}), number, before)
    loops = [Loop(head, frozenset(body)) for head, body in members.items()]
    return sorted(loops, key=lambda loop: -len(loop.members))


def back_edges(blocks: Sequence[MachineBlock]) -> list[tuple[int, int]]:
    """Ways from a block back to one that every way to it passes: the head of a loop."""
    dominators = _dominators(blocks, predecessors(blocks))
    return [
        (number, head)
        for number, block in enumerate(blocks)
        for head in block.successors
        if dominators[number] >> head & 1
    ]


def predecessors(blocks: Sequence[MachineBlock]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(number)
    return predecessors


def _add_body(members: set[int], last: int, before: Sequence[Sequence[int]]) -> None:
    """What comes to `last` without passing the head, which is a member already."""
    open_ = [last]
    while open_:
        number = open_.pop()
        if number not in members:
            members.add(number)
            open_ += before[number]


def _dominators(blocks: Sequence[MachineBlock], before: Sequence[Sequence[int]]) -> list[int]:
    """Returns the dominators of each block as a set of bits: the blocks that every way to it
    passes, itself included."""
    everything = (1 << len(blocks)) - 1
    dominators = [1, *[everything] * (len(blocks) - 1)]
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            new = everything if before[number] else 0
            for other in before[number]:
                new &= dominators[other]
            new |= 1 << number
            changed |= new != dominators[number]
            dominators[number] = new
    return dominators


def _targets(instruction: MachineInstruction, labels: Mapping[str, int]) -> list[int]:
    names = (first or second for first, second in _TARGET.findall(instruction.operands))
    return [labels[name] for name in names if name in labels]


def _successors(
    last: MachineInstruction, labels: Mapping[str, int], number: Mapping[int, int], end: int
) -> tuple[int, ...]:
    """Successors of the block that ends with the instruction `last`, at `end`."""
    following = (number[end],) if end in number else ()
    if last.opcode == _PARTED:
        return following
    if last.name in (*_JUMPS, *_TABLES):
        to = tuple(dict.fromkeys(number[at] for at in _targets(last, labels) if at in number))
        # A predicate may stand among the operands: BRA P1, `(...).
        operands = last.operands.partition("`")[0].strip()
        conditional = last.guard or (last.name in _JUMPS and operands)
        return (*to, *(n for n in following if conditional and n not in to))
    if last.name in ("EXIT", "RET") and not last.guard:
        return ()
    return following


def _meeting(
    code: Sequence[MachineInstruction], labels: Mapping[str, int], number: Mapping[int, int]
) -> list[int]:
    """Where lanes that part behind the block meet again."""
    return [
        number[at] for i in code if i.name == "BSSY" for at in _targets(i, labels) if at in number
    ]


def _reached(leads: Sequence[Sequence[int]], met: Mapping[int, Sequence[int]]) -> set[int]:
    reached, visited = {0}, [0]
    for block in visited:
        new = [n for n in dict.fromkeys((*leads[block], *met[block])) if n not in reached]
        reached.update(new)
        visited += new
    return reached


def _is_slow(instruction: MachineInstruction) -> bool:
    return instruction.name == "CALL" and "slowpath" in instruction.operands
