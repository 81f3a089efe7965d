"""Basic blocks that ptxas merges: short branches become predicated code, small loops are unrolled.

Derived from what ptxas 13.0 made of about 150 kernels for sm_90. PTX shows neither, and both decide
which loads are in flight together: within a region all of them are moved up as far as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_vgpu.isa.fragments import machine_accesses
from astra_vgpu.lowering.control_flow import (
    BARRIERS,
    BasicBlock,
    Branch,
    Jump,
    destinations,
    sources,
)
from astra_vgpu.ptx.syntax import Immediate, Instruction

PREDICATED_MOST = 14
"""Machine instructions, about, behind a branch, of which ptxas makes predicated ones."""
UNROLLED_MOST = 45
"""Machine instructions, about, of a loop that it unrolls."""
UNROLLED = 4
UNROLLED_LOADS = 8
"""More loads of global memory than these in a loop are enough as they are."""
_EXPANDED = dict.fromkeys("ex2 lg2 sin cos tanh rcp rsqrt sqrt".split(), 4) | {"div": 9, "rem": 18}
"""Instructions that become several."""
_NO_WORK = frozenset({"mov", "cvta"})
_NOT_PREDICATED = BARRIERS | frozenset("atom call shfl vote redux match mma wmma ldmatrix".split())


@dataclass(frozen=True)
class Region:
    blocks: tuple[int, ...]
    """Indices, in the order in which they run; the first is entered from outside, no other."""
    conditional: frozenset[int]
    """Blocks of the region whose instructions are predicated."""
    unrolled: int = 1
    """Turns of the loop that the region is, in one of the machine code."""


def find_regions(blocks: Sequence[BasicBlock]) -> list[Region]:
    """Every block is in one region."""
    before: list[set[int]] = [set() for _ in blocks]
    for index, block in enumerate(blocks):
        for target in block.successors:
            before[target].add(index)
    regions: list[Region] = []
    taken: set[int] = set()
    for index in range(len(blocks)):
        if index not in taken:
            region = _grown(index, blocks, before)
            regions.append(region)
            taken.update(region.blocks)
    return regions


def is_global_load(instruction: Instruction) -> bool:
    """Whether it loads from global memory, or through a generic address."""
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    loads = instruction.family == "ld" or (instruction.family == "wmma" and "load" in spaces)
    return loads and not spaces & {"param", "const", "shared", "local"}


def global_loads(instruction: Instruction) -> int:
    """Machine instructions that load from global memory."""
    return (machine_accesses(instruction.modifiers) or 1) if is_global_load(instruction) else 0


def is_global_store(instruction: Instruction) -> bool:
    """Whether it stores to global memory or a generic address, or is an atomic: only those can
    alias a global load."""
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    stores = instruction.family in ("st", "red", "atom") or (
        instruction.family == "wmma" and "store" in spaces
    )
    return stores and not spaces & {"shared", "local", "param"}


def _grown(head: int, blocks: Sequence[BasicBlock], before: Sequence[set[int]]) -> Region:
    """The head, and what follows it as long as branches between are short and meet again."""
    members, conditional = [head], set[int]()
    kept = Region((head,), frozenset())
    while True:
        leaving = _leaving(members, blocks)
        inside = set(members)
        ready = sorted(n for n in leaving if before[n] <= inside and n != head)
        if len(leaving) == 1 and ready:
            members.append(ready[0])
            kept = Region(tuple(members), frozenset(conditional))
            continue
        short = [n for n in ready if _is_short(blocks[n])]
        if not short or not isinstance(blocks[members[-1]].end, Branch | Jump):
            break
        members.append(short[0])
        conditional.add(short[0])
    return Region(kept.blocks, kept.conditional, _unrolled(kept, blocks))


def _leaving(members: Sequence[int], blocks: Sequence[BasicBlock]) -> set[int]:
    """Blocks outside to which the members go; none after a barrier or an end."""
    leaving: set[int] = set()
    for member in members:
        if not isinstance(blocks[member].end, Branch | Jump):
            return set()
        leaving.update(set(blocks[member].successors) - set(members[1:]))
    return leaving


def _is_short(block: BasicBlock) -> bool:
    """Such a branch is predicated, unless a load behind it waits for another, or what waits is a
    vector."""
    if not isinstance(block.end, Branch | Jump) or _size(block) > PREDICATED_MOST:
        return False
    loaded, vectors = set[str](), set[str]()
    for instruction in block.body:
        if instruction.family in _NOT_PREDICATED:
            return False
        waits = bool(sources(instruction) & loaded)
        if (waits and is_global_load(instruction)) or sources(instruction) & vectors:
            return False
        if is_global_load(instruction) and len(destinations(instruction)) > 1:
            vectors |= destinations(instruction)
        if waits or is_global_load(instruction):
            loaded |= destinations(instruction)
    return True


def _size(block: BasicBlock) -> int:
    return sum(_EXPANDED.get(i.family, 1) for i in block.body if i.family not in _NO_WORK)


def _unrolled(region: Region, blocks: Sequence[BasicBlock]) -> int:
    """A loop of one block that counts by a constant, loads little and stores nothing."""
    block, head = blocks[region.blocks[0]], region.blocks[0]
    loop = len(region.blocks) == 1 and head in block.successors
    if not loop or block.nounroll or not isinstance(block.end, Branch):
        return 1
    loads = sum(map(is_global_load, block.body))
    if _size(block) > UNROLLED_MOST or loads > UNROLLED_LOADS:
        return 1
    if any(is_global_store(i) or i.family in _NOT_PREDICATED for i in block.body):
        return 1
    return UNROLLED if counts_by_constant(block, block.end) else 1


def counts_by_constant(block: BasicBlock, end: Branch) -> bool:
    """Whether what the loop's end is decided by changes by an immediate, on itself, and nothing
    else that feeds the comparison does."""
    compared: set[str] = set()
    for instruction in block.body:
        if instruction.family == "setp" and end.guard.register.name in destinations(instruction):
            compared = sources(instruction)
    steps = [i for i in block.body if destinations(i) & compared]
    return len(steps) == 1 and is_step(steps[0])


def adds_one(instruction: Instruction) -> bool:
    """An atomic addition of one: shared memory has an instruction of its own for it, which serves
    all lanes at an address at once."""
    by = instruction.operands[-1]
    return (
        isinstance(by, Immediate)
        and by.kind == "int"
        and by.value == 1
        and ("add" in instruction.modifiers)
    )


def is_step(instruction: Instruction) -> bool:
    """Adds a constant to a register."""
    return (
        instruction.family in ("add", "sub")
        and bool(destinations(instruction) & sources(instruction))
        and any(isinstance(o, Immediate) for o in instruction.operands[1:])
    )
