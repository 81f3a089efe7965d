"""Loads of global memory that stand before griddepcontrol.wait (ACQBULK) in the machine code.

ptxas leaves plain loads behind the wait. It moves `ld.global.nc` over it, as it does over a
barrier: that instruction says that nobody writes to the memory while the kernel runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from astra_vgpu.sass.control_flow import (
    MachineBlock,
    back_edges,
    basic_blocks,
    functions_behind,
)
from astra_vgpu.sass.disassembly import Disassembly, MachineInstruction, MachineKernel

WAIT = "ACQBULK"
LOADS = ("LDG", "LD", "LDGSTS")


def early_loads(text: Path, kernel: str) -> tuple[int, ...]:
    """loads_before_wait() of a kernel in nvdisasm's text of a file. Raises OSError, ValueError or
    KeyError where the text cannot be read, does not hold the kernel, or the kernel never waits."""
    code = Disassembly(text).kernel(kernel)
    if not any(instruction.name == WAIT for instruction in code.instructions):
        raise ValueError(f"{kernel} does not wait")
    return loads_before_wait(code)


def loads_before_wait(kernel: MachineKernel) -> tuple[int, ...]:
    """The PTX lines of a kernel's loads that no wait comes before on any path.

    A wait in an earlier pass of the same loop does not count. Loads in functions that were not
    inlined are left out.

    Args:
        kernel: its code, with the functions behind it.

    Returns:
        Each line once, in the order of the machine code; 0 for an unknown line.
    """
    waiting = _waiting_functions(kernel)
    blocks = basic_blocks(_own_code(kernel))
    before = [_before_wait(block, waiting) for block in blocks]
    waits = [n for n, block in enumerate(blocks) if len(before[n]) < len(block.instructions)]
    back = set(back_edges(blocks))
    behind = _reached(blocks, [(n, to) for n in waits for to in blocks[n].successors], back)
    found = _reached(blocks, [(0, 0)], ()) - behind
    lines = (i.line for number in sorted(found) for i in before[number] if i.name in LOADS)
    return tuple(dict.fromkeys(lines))


def _own_code(kernel: MachineKernel) -> MachineKernel:
    end = min(functions_behind(kernel).values(), default=len(kernel.instructions))
    labels = {name: at for name, at in kernel.labels.items() if at < end}
    return MachineKernel(kernel.instructions[:end], labels)


def _waiting_functions(kernel: MachineKernel) -> list[str]:
    functions = functions_behind(kernel)
    bounds = [*sorted(set(functions.values())), len(kernel.instructions)]
    waiting = {
        start
        for start, end in pairwise(bounds)
        if any(i.name == WAIT for i in kernel.instructions[start:end])
    }
    return [name for name, at in functions.items() if at in waiting]


def _before_wait(block: MachineBlock, waiting: Sequence[str]) -> tuple[MachineInstruction, ...]:
    """The block's instructions up to its first wait or call of a function that waits."""
    for at, instruction in enumerate(block.instructions):
        called = instruction.name == "CALL" and any(f in instruction.operands for f in waiting)
        if instruction.name == WAIT or called:
            return block.instructions[:at]
    return block.instructions


def _reached(
    blocks: Sequence[MachineBlock],
    first: Iterable[tuple[int, int]],
    without: Collection[tuple[int, int]],
) -> set[int]:
    """Blocks that these ways lead to, and all behind them, but for the ways left out."""
    open_, reached = list(first), set[int]()
    while open_:
        way = open_.pop()
        if way not in without and way[1] not in reached:
            reached.add(way[1])
            open_ += [(way[1], to) for to in blocks[way[1]].successors]
    return reached
