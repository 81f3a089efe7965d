"""Recursive device functions and `alloca`: a stack in each thread's local memory.

A recursive function stands once, after the kernel's body. A call puts the arguments and the number
of its return place into a new frame, saves the registers of its function if it may be re-entered,
and jumps; `ret` jumps to the place whose number is in the frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_vgpu.lowering.basic_block_order import components
from astra_vgpu.ptx.syntax import (
    Address,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Param,
    Register,
    Statement,
    Symbol,
    Variable,
    registers_of,
)

MACHINE_FUNCTIONS = frozenset({"__assertfail", "vprintf", "malloc", "free"})
"""External functions that an engine carries out: their calls become instructions of that name."""
STACK_BYTES = 16384
"""Bytes of a thread's stack for frames of recursive functions; as many again for `alloca`."""
STACK, ROOM = "$stack", "$room"
_FRAME, TOP = Register("$frame", "b64"), Register("$top", "b64")
_PLACE, _WORD, _LONG = (
    Register(f"$move{bits}{n}", f"b{bits}") for bits, n in ((32, "p"), (32, ""), (64, ""))
)
_MOVES = {8: _LONG, 4: _WORD, 2: Register("$move16", "b16"), 1: Register("$move8", "b16")}
_FULL, _LEFT = Register("$full", "pred"), Register("$left", "b64")


def recursive(module: Module) -> dict[str, int]:
    """The functions that may come back into themselves by direct calls, and of which family."""
    names = sorted(name for name, function in module.functions.items() if function.defined)
    number = {name: at for at, name in enumerate(names)}
    calls = [
        sorted({number[n] for n in _callees(module.functions[name]) if n in number})
        for name in names
    ]
    return {
        names[member]: family
        for family, members in enumerate(components(calls))
        if len(members) > 1 or members[0] in calls[members[0]]
        for member in members
    }


def _callees(function: Function) -> Iterator[str]:
    for statement in function.body:
        if isinstance(statement, Instruction) and statement.family == "call":
            yield from (o.name for o in statement.operands[:2] if isinstance(o, Symbol))


@dataclass(frozen=True)
class FrameLayout:
    """Where a recursive function's things lie behind the frame's begin. First is the number of the
    place to go back to."""

    size: int
    places: Mapping[str, int]
    """Offset in bytes of each result, parameter and variable in the frame, by name."""
    saved: Mapping[Register, int]


def frame_of(
    function: Function, body: Sequence[Statement], names: Mapping[str, str]
) -> FrameLayout:
    """body: with the names that its registers have in the kernel; names: of the others."""
    fixed = _slots_of_the_machine(function)
    own = (v for v in function.variables.values() if v.space in ("local", "param"))
    size = 8
    places: dict[str, int] = {}
    things: list[Param | Variable] = [
        *function.returns,
        *function.params,
        *(v for v in own if v.name not in fixed),
    ]
    for thing in things:
        align = max(thing.align, 8)
        size = -(-size // align) * align
        places[names[thing.name]] = size
        size += thing.size
    registers = {r: None for s in body if isinstance(s, Instruction) for r in _mentioned(s)}
    size = -(-size // 8) * 8
    saved = {register: size + 8 * at for at, register in enumerate([*registers, TOP])}
    return FrameLayout(-(-(size + 8 * len(saved)) // 16) * 16, places, saved)


def _slots_of_the_machine(function: Function) -> set[str]:
    """They stay where they are: the machine's functions look for them there."""
    calls = (s.operands for s in function.body if isinstance(s, Instruction) and s.family == "call")
    return {
        item.name
        for operands in calls
        if any(isinstance(o, Symbol) and o.name in MACHINE_FUNCTIONS for o in operands)
        for group in operands
        if isinstance(group, Group)
        for item in group.items
        if isinstance(item, Symbol)
    }


def on_frame(body: Sequence[Statement], frame: FrameLayout, returns: str) -> Iterator[Statement]:
    """A recursive function's body whose variables lie in its frame; `ret` goes back by the table
    `returns`. Raises ValueError(instruction) for an address that cannot be moved there."""
    for number, statement in enumerate(body):
        if isinstance(statement, Label):
            yield statement
        elif statement.family == "ret":
            after = f"$stays${returns}${number}"
            if statement.guard is not None:
                opposite = Guard(statement.guard.register, not statement.guard.negated)
                yield one(statement, "bra", Symbol(after), guard=opposite)
            yield one(statement, "ld.local.u32", _PLACE, Address(_FRAME, 0))
            yield one(statement, "brx.idx", _PLACE, Symbol(returns))
            if statement.guard is not None:
                yield Label(after)
        else:
            yield _moved(statement, frame)


def _moved(statement: Instruction, frame: FrameLayout) -> Instruction:
    opcode = statement.opcode
    operands: list[Operand] = []
    for operand in statement.operands:
        match operand:
            case Address(base=Symbol(name=name), offset=offset) if name in frame.places:
                operands.append(Address(_FRAME, frame.places[name] + offset))
                opcode = opcode.replace(".param::func", ".local").replace(".param", ".local")
            case Symbol(name=name, offset=offset) if name in frame.places:
                if statement.family != "mov":
                    raise ValueError(statement)
                opcode = "add.u64"
                operands += [_FRAME, Immediate(frame.places[name] + offset)]
            case _:
                operands.append(operand)
    return dataclasses.replace(statement, opcode=opcode, operands=tuple(operands))


@dataclass(frozen=True)
class Call:
    """A call of a recursive function."""

    instruction: Instruction
    callee: Function
    to: FrameLayout
    names: Mapping[str, str]
    """Names under which `to` has the callee's results and parameters."""
    results: Sequence[Operand]
    arguments: Sequence[Operand]
    caller: FrameLayout | None
    """The calling function's frame; None for a kernel."""
    saves: bool
    """Whether the call may come back into the caller."""

    def text(self, entry: str, place: int, back: str) -> Iterator[Statement]:
        """entry, back: labels of the function, and of what comes after the call."""
        step = self.caller.size if self.caller else 0
        saved = self.caller.saved if self.caller and self.saves else {TOP: 0}
        pairs = list(zip(self.callee.params, self.arguments, strict=True))
        for param, argument in pairs:
            there = step + self.to.places[self.names[param.name]]
            yield from self._copy(param, argument, there, out=True)
        yield from self._registers(saved, "st") if self.caller else ()
        yield self._one("mov.u32", _PLACE, Immediate(place))
        yield self._one("st.local.u32", Address(_FRAME, step), _PLACE)
        yield self._one("add.u64", _FRAME, _FRAME, Immediate(step))
        yield self._one("bra", Symbol(entry))
        yield Label(back)
        yield self._one("sub.u64", _FRAME, _FRAME, Immediate(step))
        yield from self._registers(saved, "ld") if self.caller else ()
        for param, result in zip(self.callee.returns, self.results, strict=True):
            yield from self._copy(
                param, result, step + self.to.places[self.names[param.name]], out=False
            )

    def _one(self, opcode: str, *operands: Operand) -> Instruction:
        return one(self.instruction, opcode, *operands)

    def _copy(self, param: Param, slot: Operand, there: int, *, out: bool) -> Iterator[Statement]:
        """Copies between a slot of the caller and the new frame."""
        assert isinstance(slot, Symbol)
        at = 0
        while at < param.size:
            size = next(
                s
                for s in (8, 4, 2, 1)
                if at % s == 0 and s <= param.size - at and s <= max(param.align, 1)
            )
            here: Address = Address(Symbol(slot.name), slot.offset + at)
            frame = Address(_FRAME, there + at)
            (take, source), (give, target) = ("param", here), ("local", frame)
            if not out:
                (take, source), (give, target) = (give, target), (take, source)
            yield self._one(f"ld.{take}.{_kind(size)}", _MOVES[size], source)
            yield self._one(f"st.{give}.{_kind(size)}", target, _MOVES[size])
            at += size

    def _registers(self, saved: Mapping[Register, int], how: str) -> Iterator[Statement]:
        for register, at in saved.items():
            if register.type == "pred":
                yield from self._predicate(register, at, how)
            elif how == "st":
                yield self._one(f"st.local.b{register.bits}", Address(_FRAME, at), register)
            else:
                yield self._one(f"ld.local.b{register.bits}", register, Address(_FRAME, at))

    def _predicate(self, register: Register, at: int, how: str) -> Iterator[Statement]:
        if how == "st":
            yield self._one("selp.b32", _WORD, Immediate(1), Immediate(0), register)
            yield self._one("st.local.b32", Address(_FRAME, at), _WORD)
        else:
            yield self._one("ld.local.b32", _WORD, Address(_FRAME, at))
            yield self._one("setp.ne.u32", register, _WORD, Immediate(0))


def _kind(size: int) -> str:
    return "u8" if size == 1 else f"b{8 * size}"


def allocation(instruction: Instruction) -> Iterator[Statement]:
    """alloca d, size{, align}; stacksave d; stackrestore a."""
    operands = instruction.operands
    if instruction.family == "stacksave":
        yield one(instruction, "mov.b64", operands[0], TOP)
        return
    if instruction.family == "stackrestore":
        yield one(instruction, "mov.b64", TOP, operands[0])
        return
    align = operands[2].value if len(operands) > 2 and isinstance(operands[2], Immediate) else 8
    yield one(instruction, "mov.u64", _LONG, Symbol(ROOM))
    yield one(instruction, "sub.u64", _LEFT, TOP, _LONG)
    yield one(instruction, "setp.lt.u64", _FULL, _LEFT, operands[1])
    # Beyond all local memory: what is too large is out of bounds here.
    beyond = Address(TOP, 1 << 30)
    yield one(instruction, "ld.local.u8", _MOVES[1], beyond, guard=Guard(_FULL, False))
    yield one(instruction, "sub.u64", TOP, TOP, operands[1])
    yield one(instruction, "and.b64", TOP, TOP, Immediate(-max(align, 8) & (1 << 64) - 1))
    yield one(instruction, "mov.b64", operands[0], TOP)


def beginning(line: Instruction, stack: bool, room: bool) -> Iterator[Statement]:
    """What a kernel starts with."""
    if stack:
        yield one(line, "mov.u64", _FRAME, Symbol(STACK))
    if room:
        yield one(line, "mov.u64", TOP, Symbol(ROOM, STACK_BYTES))


def one(
    call: Instruction, opcode: str, *operands: Operand, guard: Guard | None = None
) -> Instruction:
    return dataclasses.replace(call, opcode=opcode, operands=operands, guard=guard)


def _mentioned(instruction: Instruction) -> Iterator[Register]:
    for operand in instruction.operands:
        yield from registers_of(operand)
    if instruction.guard is not None:
        yield instruction.guard.register
