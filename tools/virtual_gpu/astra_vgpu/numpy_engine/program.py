"""Translates a kernel to a Program: basic blocks of steps on arrays of lanes.

Nothing runs yet; unsupported instructions are refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_vgpu.isa.bulk_copies import is_bulk
from astra_vgpu.isa.mbarriers import is_poll
from astra_vgpu.lowering.clock_waits import clock_waits
from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    GridPoll,
    Jump,
    Leave,
    Suspend,
    Switch,
    control_flow,
    local_registers,
)
from astra_vgpu.lowering.data_reads import data_reads
from astra_vgpu.lowering.float_bits import registers_read_as_bits
from astra_vgpu.lowering.float_stores import float_stores
from astra_vgpu.lowering.inline import FlatKernel, inline
from astra_vgpu.lowering.local_memory import kept_in_registers
from astra_vgpu.lowering.ordered_accesses import (
    deciding_loads,
    looks_in_loops,
    unread_updates,
)
from astra_vgpu.lowering.pointer_reach import Reach, reach_of
from astra_vgpu.lowering.post_dominators import post_dominators
from astra_vgpu.lowering.shared_arrays import (
    SharedArray,
    named_array,
    reached_arrays,
)
from astra_vgpu.lowering.store_merging import store_runs
from astra_vgpu.lowering.waits import is_polling_load
from astra_vgpu.numpy_engine.barriers import Barrier, translate_barrier
from astra_vgpu.numpy_engine.block_costs import (
    block_costs,
    class_of,
    load_levels,
)
from astra_vgpu.numpy_engine.code import Code, Place, Read, Step, Unit
from astra_vgpu.numpy_engine.counters import BlockCost
from astra_vgpu.numpy_engine.dead_code import translate_dead_code
from astra_vgpu.numpy_engine.frame import RESERVED
from astra_vgpu.numpy_engine.mbarrier_waits import Poll, translate_poll
from astra_vgpu.numpy_engine.unset_registers import Twins
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.parser import shared_layout
from astra_vgpu.ptx.syntax import Instruction, Kernel, Module, Special, type_bits
from astra_vgpu.ptx.validation import check
from astra_vgpu.sass.block_mapping import PtxBlock, ptx_blocks
from astra_vgpu.types import PtxUnsupported

Later = tuple[int, frozenset[int]]
"""The number of a basic block, and of those through which all its lanes come later."""


@dataclass(frozen=True)
class Fork:
    """Lanes where the predicate holds go to `taken`, the others to `other`."""

    predicate: Read
    taken: int
    other: int


@dataclass(frozen=True)
class Table:
    """Lane by lane to targets[index]."""

    instruction: Instruction
    index: Read
    targets: tuple[int, ...]


End = Jump | Fork | Table | Barrier | Poll | GridPoll | Leave


@dataclass(frozen=True)
class Block:
    steps: tuple[Step, ...]
    end: End
    mix: BlockCost
    first: Instruction | None
    """First instruction, for messages about the block; None where it has none."""
    wait: int
    """Number of the loop that waits for a clock, or 0: clock_waits.py."""

    @property
    def only_leaves(self) -> bool:
        return not self.steps and isinstance(self.end, Leave)


@dataclass(eq=False, kw_only=True)
class Program:
    kernel: Kernel
    blocks: tuple[Block, ...]
    """In the order in which pending lanes are served; the first is the entry."""
    widths: tuple[int, ...]
    """Bits of each register."""
    shared_bytes: int
    """Static shared memory of a block, in bytes."""
    reached: Mapping[int, tuple[SharedArray, ...]]
    """Shared arrays that an instruction may access, by its id()."""
    local_bytes: int
    """Bytes of local memory of one thread."""
    shared_granule: int
    """Bytes of the narrowest access to shared memory, the race check's granularity; 0: none."""
    reach: Reach
    """What it may do to global memory."""
    in_order: bool
    """Whether a block may wait for those before it: they run one after the other, from the
    first."""
    has_mbarriers: bool
    has_heap: bool
    """Whether it calls malloc or free."""
    reserves: bool
    """Whether tiles of several warps meet in shared memory beyond its own."""
    cooperative: bool
    """Whether all blocks run at once: translated for a cooperative launch."""
    twins: Mapping[int, int]
    """Numbers of twins and their registers: unset_registers.py."""
    unset: frozenset[int]
    """Twins of registers that may be read before they are set."""
    outline: tuple[PtxBlock, ...]
    """The basic blocks as the mapping to machine code sees them."""
    looks: bool
    """Whether a loop looks at what others store: ordered_accesses.looks_in_loops."""

    @property
    def mixes(self) -> list[BlockCost]:
        return [block.mix for block in self.blocks]


_programs: weakref.WeakKeyDictionary[Module, dict[tuple[str, bool], Program]] = (
    weakref.WeakKeyDictionary()
)


def translate(module: Module, kernel: str, *, cooperative: bool = False) -> Program:
    """The program of one kernel; made once a module. cooperative: for cooperative launches.

    Raises PtxUnsupported, which names kernel, PTX line and opcode, for anything that the engine
    does not support; KeyError for a kernel that the module does not have.
    """
    known = _programs.setdefault(module, {})
    key = kernel, cooperative
    if key not in known:
        known[key] = _translate(module, module.kernels[kernel], cooperative)
    return known[key]


def count(program: Program) -> int:
    """Static PTX instructions, branches included."""
    return sum(block.mix.instructions for block in program.blocks)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A kernel as both engines begin with it: blocks in order, and where its variables lie."""

    kernel: Kernel
    blocks: list[BasicBlock]
    places: dict[str, Place]
    shared_bytes: int
    local_bytes: int
    reserves: bool
    in_registers: frozenset[int]
    """id() of loads and stores of local memory that the machine does not make."""
    looks: bool
    """Whether a loop looks at what others store: ordered_accesses.looks_in_loops."""
    sums: frozenset[int]
    """id() of each atomic update whose result nothing reads: ordered_accesses.unread_updates."""
    deciding: frozenset[int]
    """id() of each loose load whose value decides something: ordered_accesses.deciding_loads."""
    data_reads: frozenset[int]
    """id() of each ordered read that looks at no flag: data_reads.data_reads."""


def prepare(module: Module, kernel: Kernel, *, cooperative: bool) -> Prepared:
    """Raises PtxUnsupported for clusters and for control flow that is not known beforehand."""
    if "reqnctapercluster" in kernel.directives or "explicitcluster" in kernel.directives:
        raise PtxUnsupported(
            "a cluster (it needs a GPU)", kernel=kernel.name, opcode=".reqnctapercluster", line=0
        )
    check(module, kernel)
    flat = inline(module, kernel)
    reserves = any(
        o == Special(RESERVED) for s in flat.body if isinstance(s, Instruction) for o in s.operands
    )
    blocks = control_flow(flat, kernel.name, cooperative=cooperative or reserves)
    offsets, shared_bytes = shared_layout(module, kernel)
    local, local_bytes = _local_layout(flat)
    places = _places(module, kernel, offsets) | local
    translate_dead_code(module, kernel.name, flat, places)
    looks, sums = looks_in_loops(flat.body), unread_updates(blocks)
    return Prepared(
        kernel=kernel,
        blocks=blocks,
        places=places,
        shared_bytes=shared_bytes,
        local_bytes=local_bytes,
        reserves=reserves,
        in_registers=kept_in_registers(blocks, flat.variables),
        looks=looks,
        sums=sums,
        deciding=deciding_loads(blocks) if looks else frozenset(),
        data_reads=data_reads(blocks, looks, sums),
    )


def _translate(module: Module, kernel: Kernel, cooperative: bool) -> Program:
    prepared = prepare(module, kernel, cooperative=cooperative)
    blocks = prepared.blocks
    unit = Unit(
        kernel=kernel.name,
        local=local_registers(blocks),
        places=prepared.places,
        levels=load_levels(blocks),
        in_registers=prepared.in_registers,
        runs=store_runs(blocks),
        looks=prepared.looks,
        deciding=prepared.deciding,
        data_reads=prepared.data_reads,
        float_stores=float_stores(blocks),
        read_as_bits=registers_read_as_bits(blocks),
        sums=prepared.sums,
    )
    params = {p.name: p.offset for p in kernel.params}
    twins = Twins(unit, blocks)
    facts = zip(
        blocks,
        block_costs(blocks),
        clock_waits(blocks),
        enumerate(post_dominators(blocks)),
        strict=True,
    )
    translated = tuple(_block(unit, twins, *fact) for fact in facts)
    numbers, unset = twins.numbers, twins.unset
    return Program(
        kernel=kernel,
        blocks=translated,
        widths=tuple(unit.widths),
        shared_bytes=prepared.shared_bytes,
        reached=reached_arrays(blocks, shared_arrays(module, kernel)),
        local_bytes=prepared.local_bytes,
        shared_granule=_granule(blocks),
        reach=reach_of(blocks, params, prepared.looks),
        in_order=any(i.family == "ld" and is_polling_load(i) for b in blocks for i in b.body),
        has_mbarriers=_has_mbarriers(blocks),
        has_heap=any(i.family in ("malloc", "free") for b in blocks for i in b.body),
        reserves=prepared.reserves,
        cooperative=cooperative,
        twins=numbers,
        unset=unset,
        outline=ptx_blocks(blocks),
        looks=prepared.looks,
    )


def shared_arrays(module: Module, kernel: Kernel) -> dict[str, SharedArray]:
    functions = (kernel, *module.functions.values())
    own = {n: v for f in functions for n, v in f.variables.items() if v.space == "shared"}
    offsets, _ = shared_layout(module, kernel)
    sizes = {name: variable.size for name, variable in (module.shared | own).items()}
    return {name: named_array(name, at, sizes[name]) for name, at in offsets.items()}


def _local_layout(flat: FlatKernel) -> tuple[dict[str, Place], int]:
    """.local variables, and the .param slots of calls, one behind the other."""
    places: dict[str, Place] = {}
    size = 0
    for name, variable in flat.variables.items():
        if variable.space in ("local", "param"):
            align = max(variable.align, 8)
            size = -(-size // align) * align
            places[name] = Place("local" if variable.space == "local" else "slot", size)
            size += variable.size
    return places, size


def _places(module: Module, kernel: Kernel, shared: dict[str, int]) -> dict[str, Place]:
    places = {name: Place(v.space) for name, v in module.globals.items()}
    places |= {name: Place("shared", offset) for name, offset in shared.items()}
    return places | {param.name: Place("param", param.offset) for param in kernel.params}


def _block(
    unit: Unit, twins: Twins, block: BasicBlock, mix: BlockCost, wait: int, later: Later
) -> Block:
    steps: list[Step] = []
    for instruction in block.body:
        steps += twins.steps(instruction, Code(unit, instruction).translate())
    steps += twins.at_end(block)
    end = _end(unit, block, later)
    return Block(tuple(steps), end, mix, next(iter(block.instructions), None), wait)


def _end(unit: Unit, block: BasicBlock, later: Later) -> End:
    match block.end:
        case Branch(guard=guard, taken=taken, other=other):
            number = unit.number(guard.register)
            if guard.negated:
                taken, other = other, taken
            return Fork(lambda f: f.registers[number], taken, other)
        case Switch(instruction=instruction, targets=targets):
            code = Code(unit, instruction)
            code.option("idx")
            code.ignore("uni")
            code.done()
            return Table(instruction, code.read(0, "u32"), targets)
        case Suspend(instruction=instruction, target=target) if is_poll(instruction):
            return translate_poll(Code(unit, instruction), target)
        case Suspend(instruction=instruction, target=target):
            return translate_barrier(Code(unit, instruction), target, *later)
        case end:
            return end


def _has_mbarriers(blocks: Sequence[BasicBlock]) -> bool:
    """Whether there are mbarriers, or bulk copies, which work with them."""
    return any(i.family == "mbarrier" or is_bulk(i) for b in blocks for i in b.body)


def _granule(blocks: Sequence[BasicBlock]) -> int:
    """Generic accesses may be to shared memory too."""
    return min((_narrowest(i) for block in blocks for i in block.body), default=16) % 16


def _narrowest(instruction: Instruction) -> int:
    """Bytes of an access to shared memory; 16 where there is none."""
    family = instruction.family
    if family == "cp":
        return 4
    if family == "wmma":
        return 1
    if family not in ("ld", "st") or not (
        class_of(instruction) == "shared" or _is_generic(instruction)
    ):
        return 16
    return type_bits(next(m for m in reversed(instruction.modifiers) if is_type(m))) // 8


def _is_generic(instruction: Instruction) -> bool:
    spaces = {"global", "const", "local", "param"}
    return not any(m.partition("::")[0] in spaces for m in instruction.modifiers)
