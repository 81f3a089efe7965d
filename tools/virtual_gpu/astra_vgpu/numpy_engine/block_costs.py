"""What one execution of a basic block costs a warp, from its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    Leave,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_vgpu.lowering.regions import (
    Region,
    find_regions,
    global_loads,
    is_global_load,
    is_global_store,
)
from astra_vgpu.numpy_engine.counters import BlockCost
from astra_vgpu.numpy_engine.dtypes import INTEGERS
from astra_vgpu.numpy_engine.instruction_costs import (
    TENTHS,
    RegionBlock,
    alu_tenths,
    chain,
    has_slow_path,
    one_slots,
    overhead,
    slots,
    special_tenths,
    tensor_tenths,
)
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import Instruction, registers_of

IN_FLIGHT = 20
"""Words of loads that wait together in one warp: ptxas keeps to 16 mostly, to 24 at most (of 150
kernels for sm_90)."""
HOISTED = 96
"""Instructions, about, over which ptxas brings a load forward."""
_CLASSES = {
    "atomic": "atom red",
    "shuffle": "shfl match redux",
    "barrier": "bar barrier",
    "control": "bra brx ret exit trap brkpt membar fence griddepcontrol nanosleep pmevent "
    "__assertfail vprintf malloc free createpolicy",
    "special": "ex2 lg2 sin cos tanh rcp rsqrt sqrt",
    "tensor": "mma",
    "move": "mov cvta",
    "global": "prefetch prefetchu cp",
}
_BY_FAMILY = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
_ON_CHIP = {"param": "move", "const": "move", "shared": "shared"}


def class_of(instruction: Instruction) -> str:
    """One of the classes of Counters.warp_instructions."""
    family, modifiers = instruction.family, instruction.modifiers
    if family == "mbarrier":
        return "shared"
    if family in ("atom", "red") and any(m.startswith("shared") for m in modifiers):
        return "shared"
    if family in ("wmma", "ldmatrix", "stmatrix"):
        return "tensor" if "mma" in modifiers else _transfer_class(instruction)
    if family in _BY_FAMILY:
        return _BY_FAMILY[family]
    if family in ("ld", "st"):
        spaces = (_ON_CHIP.get(m.partition("::")[0]) for m in modifiers)
        return next((space for space in spaces if space), "global")
    types = [m for m in modifiers if is_type(m)]
    if family == "cvt" and not all(t in INTEGERS for t in types):
        return _conversion_class(modifiers, types)
    last = types[-1] if types else "b32"
    if family == "div" and last == "f32":
        return "special"
    if "f16" in last:
        return "half"
    return "float" if last in ("f32", "f64") else "int"


def _conversion_class(modifiers: Sequence[str], types: Sequence[str]) -> str:
    """Class of a conversion: from floats to integers by the special-function unit; to widen halves
    costs an addition."""
    to_whole = types[0] in INTEGERS and types[-1] not in INTEGERS
    if to_whole or {"rni", "rzi", "rmi", "rpi"}.intersection(modifiers):
        return "special"
    return "half" if types[0] == "f32" and types[-1] in ("f16", "bf16") else "convert"


def _transfer_class(instruction: Instruction) -> str:
    """Class of an instruction that moves a fragment from or to memory."""
    if instruction.family != "wmma":
        return "shared"
    return "shared" if any(m.startswith("shared") for m in instruction.modifiers) else "global"


def block_costs(blocks: Sequence[BasicBlock]) -> list[BlockCost]:
    """One for each block. What a region costs as a whole stands at its first block."""
    mixes: dict[int, BlockCost] = {}
    for region, stretches in _stretched(blocks):
        for index in region.blocks:
            last = index == region.blocks[-1]
            mixes[index] = _own(blocks[index], region, last, index in blocks[index].successors)
        head = region.blocks[0]
        turns = region.unrolled
        longest = chain(stretches * turns, blocks[region.blocks[-1]])
        levels = _levels(stretches * turns)
        rounds = max((level for _, level in levels), default=0)
        mixes[head] = replace(
            mixes[head], cycles=-(-longest // turns), rounds=rounds, turns=turns, head=True
        )
    return [mixes[index] for index in range(len(blocks))]


def load_levels(blocks: Sequence[BasicBlock]) -> Mapping[int, tuple[int, ...]]:
    """Returns the rounds of its region in which each global load is waited for, by id() of the
    load: numbers from 1, one for each of the turns that are unrolled."""
    levels: dict[int, tuple[int, ...]] = {}
    for region, stretches in _stretched(blocks):
        for instruction, level in _levels(stretches * region.unrolled):
            levels[id(instruction)] = (*levels.get(id(instruction), ()), level)
    return levels


def _stretched(blocks: Sequence[BasicBlock]) -> list[tuple[Region, list[RegionBlock]]]:
    return [
        (
            region,
            [
                RegionBlock(
                    tuple((i, class_of(i)) for i in blocks[n].body), n in region.conditional
                )
                for n in region.blocks
            ],
        )
        for region in find_regions(blocks)
    ]


def _own(block: BasicBlock, region: Region, last: bool, loops: bool) -> BlockCost:
    """What a visit of the block counts for itself."""
    classes = Counter(class_of(instruction) for instruction in block.body)
    match block.end:
        case Branch() | Switch() | Leave():
            classes["control"] += 1
        case Suspend():
            classes["barrier"] += 1
    loads = sum(map(global_loads, block.body))
    classed = [(i, class_of(i)) for i in block.body]
    used = slots(classed, block, ends=last, loops=loops)
    if region.unrolled > 1:
        used -= overhead(block) * (region.unrolled - 1) // region.unrolled
    tensor = sum(map(tensor_tenths, block.body))
    alu, special = alu_tenths(classed), special_tenths(classed, loops=loops)
    return BlockCost(
        dict(classes),
        sum(classes.values()),
        loads,
        slots=used,
        alu=min(alu, used),
        special=special,
        tensor=tensor,
    )


def _levels(stretches: Sequence[RegionBlock]) -> list[tuple[Instruction, int]]:
    """Global loads, with the number of waits for global memory, one after the other, that end with
    that for the load.

    ptxas moves loads up as far as their addresses, and stores that might alias them, allow; a load
    marked .nc passes stores. It has no more of them under way than IN_FLIGHT words, brings none
    over more than HOISTED instructions, and none past a branch to a slow path.
    """
    ready: dict[str, int] = {}
    levels: list[tuple[Instruction, int]] = []
    flight = _Flight()
    fence = 0
    for stretch in stretches:
        for instruction, kind in stretch.body:
            level = max((ready.get(name, 0) for name in sources(instruction)), default=0)
            flight.issue(instruction, kind, level)
            if is_global_load(instruction):
                start = level if "nc" in instruction.modifiers else max(level, fence)
                level = flight.add(_words(instruction), start)
                levels.append((instruction, level))
            elif is_global_store(instruction):
                stored = (ready.get(name, 0) for name in _all_names(instruction))
                fence = max(fence, level, *stored)
            for name in destinations(instruction):
                ready[name] = max(level, ready.get(name, 0)) if stretch.conditional else level
    return levels


class _Flight:
    """Loads that are under way together."""

    def __init__(self) -> None:
        self._loads: list[tuple[int, int]] = []
        """Words and level."""
        self._waits: list[tuple[int, int]] = []
        """Instructions that waited for one, by the slots before, and the level."""
        self._slots = self._ended = 0
        """Level of the last load that had to end before another began."""

    def issue(self, instruction: Instruction, kind: str, level: int) -> None:
        """An instruction that waits for loads up to that level."""
        self._slots += one_slots(instruction, kind)
        if level:
            self._waits.append((self._slots, level))
        passed = self._slots - (0 if has_slow_path(instruction) else HOISTED * TENTHS)
        while self._waits and self._waits[0][0] <= passed:
            self._ended = max(self._ended, self._waits.pop(0)[1])

    def add(self, words: int, start: int) -> int:
        """The level of a load that may begin after that level."""
        while self._loads and sum(w for w, _ in self._loads) + words > IN_FLIGHT:
            self._ended = max(self._ended, self._loads.pop(0)[1])
        level = max(start, self._ended) + 1
        self._loads.append((words, level))
        return level


def _words(load: Instruction) -> int:
    """Registers that it fills."""
    return -(-sum(register.bits for register in registers_of(load.operands[0])) // 32)


def _all_names(instruction: Instruction) -> set[str]:
    return sources(instruction) | destinations(instruction)
