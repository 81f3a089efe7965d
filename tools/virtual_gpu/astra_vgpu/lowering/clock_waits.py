"""Loops that only wait for a clock, or for a value in memory as long as a clock allows: while they
turn, nothing but time passes."""

from __future__ import annotations

from collections.abc import Sequence

from astra_vgpu.isa.clocks import CLOCKS
from astra_vgpu.lowering.basic_block_order import components
from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    GridPoll,
    Jump,
    destinations,
    sources,
)
from astra_vgpu.lowering.waits import is_polling_load
from astra_vgpu.ptx.syntax import Immediate, Instruction, Special

_EFFECTS = frozenset(
    "ld st atom red cp mbarrier wmma ldmatrix stmatrix bar barrier membar fence trap brkpt vprintf "
    "malloc free __assertfail".split()
)

_LOOKS = frozenset({"param", "const", "volatile", "relaxed", "acquire"})
"""Modifiers of loads of what does not change, and of what is to be seen as soon as it does."""


def clock_waits(blocks: Sequence[BasicBlock]) -> list[int]:
    """For each basic block, the number of the innermost loop around it that waits for a clock, from
    1; 0 where there is none.

    A loop waits for a clock if a branch out of it depends on one, and nothing in it touches memory
    but what looks for another thread's value.
    """
    loops = [0] * len(blocks)
    quiet = {n for n, block in enumerate(blocks) if _is_quiet(block)}
    for number, loop in enumerate(_waiting_loops(blocks, quiet), start=1):
        for index in loop:
            loops[index] = number
    return loops


def _waiting_loops(blocks: Sequence[BasicBlock], among: set[int]) -> list[set[int]]:
    """The first block of a loop is its head, as blocks are in weak topological order."""
    graph = [
        [t for t in block.successors if t in among] if n in among else []
        for n, block in enumerate(blocks)
    ]
    found: list[set[int]] = []
    for loop in map(set, components(graph)):
        if len(loop) == 1 and not loop.intersection(*(graph[n] for n in loop)):
            continue
        inner = _waiting_loops(blocks, loop - {min(loop)})
        found += inner or ([loop] if _waits([blocks[n] for n in loop], loop) else [])
    return found


def _is_quiet(block: BasicBlock) -> bool:
    return isinstance(block.end, Jump | Branch | GridPoll) and all(map(_only_looks, block.body))


def _only_looks(instruction: Instruction) -> bool:
    family, modifiers = instruction.family, instruction.modifiers
    if family in ("membar", "fence"):
        return True
    if family == "atom" and not {"cas", "exch"}.intersection(modifiers):
        return instruction.operands[-1] == Immediate(0) and not {"and", "min"}.intersection(
            modifiers
        )
    if family == "ld":
        return bool(_LOOKS.intersection(modifiers))
    return family not in _EFFECTS or is_polling_load(instruction)


def _waits(loop: Sequence[BasicBlock], members: set[int]) -> bool:
    body = [instruction for block in loop for instruction in block.body]
    timed: set[str] = set()
    while (
        new := {
            name for i in body if _reads_clock(i) or timed & sources(i) for name in destinations(i)
        }
        - timed
    ):
        timed |= new
    return any(
        isinstance(block.end, Branch)
        and block.end.guard.register.name in timed
        and not members.issuperset(block.successors)
        for block in loop
    )


def _reads_clock(instruction: Instruction) -> bool:
    return any(isinstance(o, Special) and o.name in CLOCKS for o in instruction.operands)
