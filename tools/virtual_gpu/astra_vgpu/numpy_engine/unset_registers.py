"""Reads of registers that nothing has set: reported where they reach memory or a branch.

An unset register holds 0. Each register whose value may follow from one has a twin, which is
computed from another content of the unset ones. Where the two differ in an address, a predicate, or
what is stored to global memory, the kernel does what only chance decides. What cancels out, as in
lanes that nobody asks for, passes. What goes through shared or local memory is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from astra_vgpu.isa.mbarriers import is_poll
from astra_vgpu.lowering.control_flow import (
    BasicBlock,
    Branch,
    Suspend,
    Switch,
    destinations,
    sources,
)
from astra_vgpu.lowering.unset_registers import (
    FROM_MEMORY,
    flows,
    unset_registers,
    watched_registers,
)
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import WINDOWS
from astra_vgpu.numpy_engine.code import Code, Step, Unit
from astra_vgpu.numpy_engine.dtypes import Array, unsigned
from astra_vgpu.numpy_engine.frame import Active, Frame, Mask
from astra_vgpu.ptx.syntax import (
    Address,
    Guard,
    Instruction,
    Operand,
    Register,
    registers_of,
    rename,
)

_EFFECTS = FROM_MEMORY | frozenset("cp stmatrix malloc alloca".split())
"""Families with results that are not computed twice."""
_ADDRESSED = frozenset("ld st atom red cp ldmatrix stmatrix wmma mbarrier".split())
_ON_CHIP = frozenset({"shared", "local", "param"})
_OTHER = (0xFFFFFFFFFFFFFFFF, 1, 0x7FF0123470012345, 0x8000000180000001, 0x3C003C003F803F80)
"""What twins of unset registers hold, lane by lane: NaN or -1, small numbers, large ones."""
_FIRST_WINDOW = np.uint64(min(WINDOWS.values()))
_HINTS = frozenset({"prefetch", "prefetchu", "applypriority", "discard", "nanosleep"})
"""Families that decide about time only."""


Lanes = Callable[[Frame], Active]


class Twins:
    """The watched registers of one kernel while it is translated."""

    def __init__(self, unit: Unit, blocks: Sequence[BasicBlock]) -> None:
        self._unit, self._blocks = unit, blocks
        self._unset = unset_registers(blocks)
        watched = sorted(watched_registers(blocks, self._unset))
        self._registers = {r.name: r for b in blocks for r in _named(b)} if watched else {}
        self._twins = {name: Register(f"{name}'", self._registers[name].type) for name in watched}
        unit.local |= {self._twins[name].name for name in self._twins if name in unit.local}
        unit.read_as_bits |= {self._twins[n].name for n in self._twins if n in unit.read_as_bits}

    @property
    def numbers(self) -> dict[int, int]:
        """Number of the register that each twin belongs to, by number of the twin."""
        return {other: one for one, other in map(self._pair, self._twins)}

    @property
    def unset(self) -> frozenset[int]:
        """Numbers of the twins of the registers that may be read unset."""
        return frozenset(self._pair(name)[1] for name in self._unset if name in self._twins)

    def steps(self, instruction: Instruction, step: Step) -> Iterator[Step]:
        """The step of an instruction, with what its watched registers need."""
        if not self._twins:
            yield step
            return
        read = sources(instruction) & self._twins.keys()
        written = destinations(instruction) & self._twins.keys()
        computed = _is_computed(instruction) and flows(instruction, read)
        if read and not (written and computed) and not _carries(instruction):
            yield from self._check(instruction)
        if not written:
            yield step
        elif read and computed:
            yield self._both(instruction, step, self._again(instruction), read, written)
        else:
            yield self._both(instruction, step, self._copy(instruction, written), set(), written)

    def at_end(self, block: BasicBlock) -> Iterator[Step]:
        """Checks of what decides where lanes go."""
        match block.end:
            case Branch(guard=guard, instruction=Instruction() as branch):
                if guard.register.name in self._twins:
                    yield self._compare(branch, [guard.register], lambda f: f.active, "a branch")
            case Switch(instruction=instruction) | Suspend(instruction=instruction):
                if sources(instruction) & self._twins.keys():
                    yield from self._check(instruction)

    def _pair(self, name: str) -> tuple[int, int]:
        """The numbers of a register and its twin."""
        number = self._unit.number
        return number(self._registers[name]), number(self._twins[name])

    def _from(self, unset: str) -> frozenset[str]:
        return watched_registers(self._blocks, [unset])

    def _both(
        self, instruction: Instruction, step: Step, again: Step, read: set[str], written: set[str]
    ) -> Step:
        """The step, and `again` for the twins; where these are the same arrays as their registers,
        they stay so."""
        results = [self._pair(name) for name in sorted(written)]
        known = [self._pair(name) for name in sorted(read)]
        unguarded = instruction.guard is None
        local = unguarded and all(name in self._unit.local for name in written)

        def run(f: Frame) -> None:
            registers = f.registers
            whole = local or (unguarded and f.full)
            looked_at = known if whole else (*known, *results)
            same = all(registers[one] is registers[other] for one, other in looked_at)
            step(f)
            if not same:
                again(f)
                return
            for one, other in results:
                registers[other] = registers[one]

        return run

    def _again(self, instruction: Instruction) -> Step:
        """The instruction with twins in the place of registers."""
        guard = instruction.guard
        if guard is not None:
            register = self._twins.get(guard.register.name, guard.register)
            guard = Guard(register, guard.negated)
        operands = tuple(rename(o, self._twins, {}) for o in instruction.operands)
        step = Code(self._unit, replace(instruction, operands=operands, guard=guard)).translate()

        def uncounted(f: Frame) -> None:
            counters, f.counters = f.counters, None
            step(f)
            f.counters = counters

        return uncounted

    def _copy(self, instruction: Instruction, written: set[str]) -> Step:
        """Copies to the twins the results that do not follow from an unset register."""
        code, copies = Code(self._unit, instruction), []
        for name in sorted(written):
            dtype = unsigned(self._registers[name].bits)
            get = code.reader(self._registers[name], dtype)
            copies.append((get, code.writer(self._twins[name], dtype)))

        def copy(f: Frame) -> None:
            for get, put in copies:
                put(f, get(f))

        return copy

    def _check(self, instruction: Instruction) -> Iterator[Step]:
        """Checks an instruction with effects: its guard, its addresses, what it stores."""
        if instruction.family in _HINTS:
            return
        guard = instruction.guard
        if guard is not None and guard.register.name in self._twins:
            what = f"whether {instruction.family} is executed"
            yield self._compare(instruction, [guard.register], lambda f: f.active, what)
        active = Code(self._unit, instruction).active
        stored, others = _parts(instruction)
        if watched := self._watched(others):
            what = "an address" if instruction.family in _ADDRESSED else "an operand"
            yield self._compare(instruction, watched, active, what)
        if watched := self._watched(stored):
            reach = _into_global(Code(self._unit, instruction), active)
            yield self._compare(instruction, watched, reach, "what is stored")

    def _watched(self, operands: Sequence[Operand]) -> list[Register]:
        found = (r for o in operands for r in registers_of(o))
        return [r for r in found if r.name in self._twins]

    def _compare(
        self, instruction: Instruction, registers: Sequence[Register], lanes: Lanes, what: str
    ) -> Step:
        """Raises Fault where a register and its twin differ in these lanes."""
        code = Code(self._unit, instruction)
        pairs = [
            (
                code.reader(r, unsigned(r.bits)),
                code.reader(self._twins[r.name], unsigned(r.bits)),
                r,
            )
            for r in registers
        ]

        def step(f: Frame) -> None:
            active = lanes(f)
            if not active.count:
                return
            for one, other, register in pairs:
                different: Mask = np.broadcast_to(one(f) != other(f), f.shape) & active.mask
                if different.any():
                    raise f.fault(
                        instruction,
                        "unset_register",
                        self._message(what, register),
                        machine.LAUNCH_FAILURE,
                        int(np.flatnonzero(different)[0]),
                    )

        return step

    def _message(self, what: str, register: Register) -> str:
        flown = ((n, i) for n, i in self._unset.items() if register.name in self._from(n))
        root, reader = next(flown)
        where = f", at {reader.source or f'PTX line {reader.line}'}" if reader else ""
        return f"{what} depends on a register that nothing has set (read as {root}{where})"


def _named(block: BasicBlock) -> Iterator[Register]:
    """Registers that a basic block names."""
    for each in block.instructions:
        for operand in each.operands:
            yield from registers_of(operand)
        if each.guard is not None:
            yield each.guard.register


def _is_computed(instruction: Instruction) -> bool:
    """Whether the results follow from registers alone, so that it can be done twice."""
    if instruction.family in _EFFECTS or _carries(instruction):
        return False
    return not instruction.opcode.startswith(("wmma.load", "wmma.store"))


def _carries(instruction: Instruction) -> bool:
    """Whether it works with the condition code, which is not followed."""
    return "cc" in instruction.modifiers or instruction.family in ("addc", "subc", "madc")


def _parts(instruction: Instruction) -> tuple[Sequence[Operand], Sequence[Operand]]:
    """The operands that it stores, and the other ones that it reads, but for a wait's limit of
    time: libcu++ reads that before it is set (try_wait_for)."""
    operands = instruction.operands[:3] if is_poll(instruction) else instruction.operands
    if instruction.family in ("st", "stmatrix", "red") or instruction.opcode.startswith("wmma.st"):
        return operands[1:2], (*operands[:1], *operands[2:])
    if instruction.family == "atom":
        return operands[2:], operands[1:2]
    return (), operands[1:] if destinations(instruction) else operands


def _into_global(code: Code, active: Lanes) -> Lanes:
    """The active lanes whose address lies in global memory."""
    instruction = code.instruction
    spaces = {m.partition("::")[0] for m in instruction.modifiers}
    place = 1 if instruction.family == "atom" else 0
    address = instruction.operands[place]
    if spaces & _ON_CHIP or instruction.family == "stmatrix":
        return lambda f: Active(np.zeros(f.shape, np.bool_), 0)
    base = address.base if isinstance(address, Address) else None
    if "global" in spaces or not isinstance(base, Register) or base.bits != 64:
        return active
    read = code.reader(base, unsigned(64))

    def generic(f: Frame) -> Active:
        lanes = active(f)
        mask: Mask = lanes.mask & np.broadcast_to(read(f) < _FIRST_WINDOW, f.shape)
        return Active(mask, int(np.count_nonzero(mask)))

    return generic


def other_content(bits: int, lanes: int) -> Array:
    """What an unset register's twin holds: [1, lanes]."""
    words = np.resize(np.array(_OTHER, np.uint64), (1, lanes))
    return words.astype(unsigned(bits)) if bits > 1 else np.ones((1, lanes), np.bool_)
