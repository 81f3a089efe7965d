"""Control-flow graph of a kernel: basic blocks in the order in which the scheduler runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from astra_vgpu.isa.mbarriers import has_no_result, is_poll
from astra_vgpu.lowering.basic_block_order import (
    shared_latches,
    weak_topological_order,
)
from astra_vgpu.lowering.inline import FlatKernel
from astra_vgpu.lowering.waits import is_polling_load, looped, takes_locks
from astra_vgpu.ptx.syntax import (
    Guard,
    Instruction,
    Label,
    Symbol,
    registers_of,
)
from astra_vgpu.types import PtxUnsupported

BARRIERS = frozenset({"bar", "barrier"})
WARP_WIDE = frozenset("shfl vote match redux elect mma wmma ldmatrix stmatrix".split()) | BARRIERS
"""Families for which the lanes of a warp meet."""
NO_RESULT = frozenset(
    "st red bra brx bar barrier ret exit trap membar fence prefetch prefetchu griddepcontrol "
    "nanosleep brkpt pmevent discard applypriority cp stmatrix __assertfail vprintf malloc "
    "free".split()
)
"""Families whose first operand is not a destination."""


@dataclass(frozen=True)
class Jump:
    target: int
    instruction: Instruction | None = field(default=None, compare=False)
    """The branch, where one is written."""


@dataclass(frozen=True)
class Branch:
    """To `taken` where the guard holds, else to `other`."""

    guard: Guard
    taken: int
    other: int
    instruction: Instruction | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Switch:
    """brx.idx: lane by lane to targets[index]."""

    instruction: Instruction
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Suspend:
    """A barrier of the block, or a test of an mbarrier; lanes continue at `target` after it."""

    instruction: Instruction
    target: int


@dataclass(frozen=True)
class GridPoll:
    """Before an instruction by which lanes wait for others that they do not meet at a barrier, in a
    cooperative launch or for a lock: they go on once no other lane can."""

    instruction: Instruction
    target: int


@dataclass(frozen=True)
class Leave:
    """The end of a thread."""


Terminator = Jump | Branch | Switch | Suspend | GridPoll | Leave


@dataclass
class BasicBlock:
    body: list[Instruction] = field(default_factory=list)
    end: Terminator = field(default_factory=Leave)
    nounroll: bool = False
    """Begins a loop that ptxas must not unroll."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Those of its body, and that with which it ends, where that is one of the source."""
        last = getattr(self.end, "instruction", None)
        return (*self.body, *([] if last is None else [last]))

    @property
    def meets(self) -> bool:
        """Whether lanes of a warp meet here."""
        return any(one.family in WARP_WIDE for one in self.instructions)

    @property
    def only_leaves(self) -> bool:
        return not self.body and isinstance(self.end, Leave)

    @property
    def successors(self) -> tuple[int, ...]:
        match self.end:
            case Jump(target=target) | Suspend(target=target) | GridPoll(target=target):
                return (target,)
            case Branch(taken=taken, other=other):
                return (taken, other)
            case Switch(targets=targets):
                return targets
            case _:
                return ()


def control_flow(flat: FlatKernel, kernel: str, *, cooperative: bool = False) -> list[BasicBlock]:
    """Reachable basic blocks in weak topological order; block 0 is the entry.

    cooperative: all thread blocks run at once, and loops that wait for others pause; otherwise
    only those that take a lock do.
    Raises PtxUnsupported for a branch whose target is unknown.
    """
    waits = looped(flat, is_polling_load if cooperative else takes_locks(flat))
    blocks = _Builder(flat, kernel, waits).build()
    _join_latches(blocks)
    order = weak_topological_order([block.successors for block in blocks])
    place = {old: new for new, old in enumerate(order)}
    ordered = [blocks[old] for old in order]
    for block in ordered:
        block.end = _moved(block.end, place)
    return ordered


def _join_latches(blocks: list[BasicBlock]) -> None:
    """Adds a block that leads back to a loop's head where several back edges are to be one."""
    shared = shared_latches([b.successors for b in blocks], [b.meets for b in blocks])
    for head, sources in shared.items():
        blocks.append(BasicBlock(end=Jump(head)))
        place = {number: number for number in range(len(blocks))} | {head: len(blocks) - 1}
        for source in sources:
            blocks[source].end = _moved(blocks[source].end, place)


def unreached_instructions(flat: FlatKernel) -> list[Instruction]:
    """Those of basic blocks that control never comes to, but for the ends of the blocks."""
    blocks = _Builder(flat, "", frozenset()).build()
    seen, reached = {0}, [0]
    for number in reached:
        new = [n for n in blocks[number].successors if n not in seen]
        seen.update(new)
        reached += new
    return [i for number, block in enumerate(blocks) if number not in seen for i in block.body]


def destinations(instruction: Instruction) -> set[str]:
    """Names of the registers that an instruction writes."""
    if _has_no_result(instruction):
        return set()
    return {r.name for o in instruction.operands[:1] for r in registers_of(o)}


def sources(instruction: Instruction) -> set[str]:
    """Names of the registers that an instruction reads, its guard included."""
    operands = instruction.operands if _has_no_result(instruction) else instruction.operands[1:]
    names = {r.name for o in operands for r in registers_of(o)}
    if instruction.guard is not None:
        names.add(instruction.guard.register.name)
    return names


def _has_no_result(instruction: Instruction) -> bool:
    if instruction.opcode.startswith("wmma.store") or has_no_result(instruction):
        return True
    return instruction.family in NO_RESULT and not is_reducing_barrier(instruction)


def is_reducing_barrier(instruction: Instruction) -> bool:
    return instruction.family in BARRIERS and "red" in instruction.modifiers


def is_block_barrier(instruction: Instruction) -> bool:
    """bar.warp.sync concerns one warp: no barrier of the block."""
    return instruction.family in BARRIERS and "warp" not in instruction.modifiers


def local_registers(blocks: Sequence[BasicBlock]) -> set[str]:
    """Registers of one basic block only, written there before they are read.

    Lanes outside the block never see them, so a write needs no mask.
    """
    home: dict[str, int] = {}
    shared: set[str] = set()
    for index, block in enumerate(blocks):
        for name, first_is_write in _mentions(block):
            if home.setdefault(name, index) != index or not first_is_write:
                shared.add(name)
    return set(home) - shared


def _mentions(block: BasicBlock) -> Iterable[tuple[str, bool]]:
    seen: dict[str, bool] = {}
    for instruction in block.body:
        for name in sources(instruction):
            seen.setdefault(name, False)
        for name in destinations(instruction):
            seen.setdefault(name, instruction.guard is None)
    match block.end:
        case Branch(guard=guard):
            seen.setdefault(guard.register.name, False)
        case Switch(instruction=instruction):
            seen.update(dict.fromkeys(sources(instruction) - set(seen), False))
        case Suspend(instruction=instruction):
            # Lanes pass a barrier in different visits: whatever it touches crosses blocks.
            seen.update(dict.fromkeys(sources(instruction) | destinations(instruction), False))
    return seen.items()


class _Builder:
    """Cuts a flat body into basic blocks, in the order of the text."""

    def __init__(self, flat: FlatKernel, kernel: str, waits: frozenset[int]) -> None:
        self._flat, self._kernel, self._waits = flat, kernel, waits
        self._blocks = [BasicBlock()]
        self._labels: dict[str, int] = {}
        self._later: list[Callable[[], None]] = []
        self._exit: int | None = None

    def build(self) -> list[BasicBlock]:
        for statement in self._flat.body:
            if isinstance(statement, Label):
                following = self._begin()
                self._blocks[following - 1].end = Jump(following)
                self._labels[statement.name] = following
                self._last.nounroll = statement.nounroll
            else:
                self._add(statement)
        for resolve in self._later:
            resolve()
        return self._blocks

    @property
    def _last(self) -> BasicBlock:
        return self._blocks[-1]

    def _begin(self) -> int:
        self._blocks.append(BasicBlock())
        return len(self._blocks) - 1

    def _add(self, instruction: Instruction) -> None:
        if id(instruction) in self._waits:
            block = self._last
            block.end = GridPoll(instruction, self._begin())
        match instruction.family:
            case "bra":
                to = instruction.operands[0] if instruction.operands else Symbol("")
                self._branch(instruction, to)
            case "brx":
                self._switch(instruction)
            case "ret" | "exit":
                self._branch(instruction, None)
            case "trap":
                self._last.body.append(instruction)
                if instruction.guard is None:
                    self._begin()
            case "bar" | "barrier" if is_block_barrier(instruction):
                self._barrier(instruction)
            case "mbarrier" if is_poll(instruction):
                self._barrier(instruction)
            case _:
                self._last.body.append(instruction)

    def _branch(self, instruction: Instruction, to: object) -> None:
        """To a label, or, without one, to the end of the thread."""
        block, guard = self._last, instruction.guard
        following = self._begin()
        if to is None and guard is None:
            return

        def resolve() -> None:
            target = self._end_block() if to is None else self._target(instruction, to)
            block.end = (
                Branch(guard, target, following, instruction)
                if guard
                else Jump(target, instruction)
            )

        self._later.append(resolve)

    def _end_block(self) -> int:
        if self._exit is None:
            self._exit = self._begin()
        return self._exit

    def _target(self, instruction: Instruction, label: object) -> int:
        if isinstance(label, Symbol) and label.name in self._labels:
            return self._labels[label.name]
        raise PtxUnsupported(
            "a branch without a known target",
            kernel=self._kernel,
            opcode=instruction.opcode,
            line=instruction.line,
        )

    def _switch(self, instruction: Instruction) -> None:
        table = instruction.operands[1] if len(instruction.operands) > 1 else None
        names = self._flat.targets.get(table.name, ()) if isinstance(table, Symbol) else ()
        block = self._skippable(instruction)
        self._begin()

        def resolve() -> None:
            targets = tuple(self._target(instruction, Symbol(name)) for name in names)
            if not targets:
                self._target(instruction, None)
            block.end = Switch(instruction, targets)

        self._later.append(resolve)

    def _barrier(self, instruction: Instruction) -> None:
        block = self._skippable(instruction)
        block.end = Suspend(instruction, self._begin())

    def _skippable(self, instruction: Instruction) -> BasicBlock:
        """The block that the instruction ends: one that the lanes go round where a guard fails."""
        if instruction.guard is None:
            return self._last
        before, guarded = self._last, self._begin()
        block = self._last
        opposite = Guard(instruction.guard.register, not instruction.guard.negated)
        around = Branch(opposite, guarded + 1, guarded, instruction)
        self._later.append(lambda: setattr(before, "end", around))
        return block


def _moved(end: Terminator, place: dict[int, int]) -> Terminator:
    match end:
        case Jump(target=target):
            return Jump(place[target], end.instruction)
        case Branch(guard=guard, taken=taken, other=other):
            return Branch(guard, place[taken], place[other], end.instruction)
        case Switch(instruction=instruction, targets=targets):
            return Switch(instruction, tuple(place[t] for t in targets))
        case Suspend(instruction=instruction, target=target):
            return Suspend(instruction, place[target])
        case GridPoll(instruction=instruction, target=target):
            return GridPoll(instruction, place[target])
        case _:
            return end
