"""Registers that may be read before an instruction has set them, and what their values flow into.

nvcc writes such reads too: in code whose result nobody uses, or on paths that are never taken. So
this says only which registers the engine has to watch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_vgpu.ptx.syntax import Instruction

FROM_MEMORY = frozenset("ld ldmatrix atom mbarrier".split())
"""Families whose results do not follow from their registers alone."""


def unset_registers(blocks: Sequence[BasicBlock]) -> dict[str, Instruction | None]:
    """Returns the registers that some path reads unset, by name, with an instruction that does."""
    bits, before = _set_before(blocks)
    found: dict[str, Instruction | None] = {}
    reads: list[tuple[set[str], int, Instruction | None]] = []
    for block, mask in zip(blocks, before, strict=True):
        here: set[str] = set()
        for instruction in block.body:
            reads.append((sources(instruction) - here, mask, instruction))
            if instruction.guard is None:
                here |= destinations(instruction)
        last = getattr(block.end, "instruction", None)
        reads.append((read_at_end(block) - here, mask, last))
    for names, mask, reader in reads:
        for name in sorted(names):
            if not mask & bits.get(name, 0):
                found.setdefault(name, reader)
    return found


def watched_registers(blocks: Sequence[BasicBlock], unset: Collection[str]) -> frozenset[str]:
    """These and all registers whose values may follow from theirs, but for results of barriers."""
    if not unset:
        return frozenset()
    met = {n for b in blocks if isinstance(b.end, Suspend) for n in destinations(b.end.instruction)}
    watched, grown = set(unset) - met, True
    while grown:
        grown = False
        for instruction in (i for block in blocks for i in block.body):
            new = destinations(instruction) - watched - met
            if new and flows(instruction, watched):
                watched |= new
                grown = True
    return frozenset(watched)


def flows(instruction: Instruction, watched: Collection[str]) -> bool:
    """Whether its results follow from watched registers."""
    if instruction.family in FROM_MEMORY or instruction.opcode.startswith("wmma.load"):
        return False
    return any(name in watched for name in sources(instruction))


def read_at_end(block: BasicBlock) -> set[str]:
    """Registers that say where it continues."""
    match block.end:
        case Branch(guard=guard):
            return {guard.register.name}
        case Switch(instruction=instruction) | Suspend(instruction=instruction):
            return sources(instruction)
        case _:
            return set()


def _set_in(block: BasicBlock) -> set[str]:
    names = {n for i in block.body if i.guard is None for n in destinations(i)}
    if isinstance(block.end, Suspend):
        names |= destinations(block.end.instruction)
    return names


def _set_before(blocks: Sequence[BasicBlock]) -> tuple[dict[str, int], list[int]]:
    """Returns the bit of each register, by name, and for each basic block the registers that every
    path to it sets, as a mask of these bits."""
    own = [_set_in(block) for block in blocks]
    names = sorted(set().union(*own))
    bits = {name: 1 << place for place, name in enumerate(names)}
    masks = [sum(bits[name] for name in one) for one in own]
    earlier: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for following in block.successors:
            earlier[following].append(number)
    everything = (1 << len(names)) - 1
    before = [everything if number and earlier[number] else 0 for number in range(len(blocks))]
    changed = True
    while changed:
        changed = False
        for number in range(1, len(blocks)):
            new = before[number]
            for one in earlier[number]:
                new &= before[one] | masks[one]
            if new != before[number]:
                before[number], changed = new, True
    return bits, before
