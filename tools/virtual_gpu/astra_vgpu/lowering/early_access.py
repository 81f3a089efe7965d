"""What a kernel may touch before griddepcontrol.wait on some path: a check that needs no case.

In a launch that may begin before the work ahead of it has ended, every path from the entry to an
access of an argument's memory has to pass a wait. Paths are followed as one thread would go them,
with the values that are known: constants, parameters of the launch, special registers, and how
branches on the way went. So a wait behind `if (late)` counts where the launch says so, one in the
first pass of a loop counts for all passes, and one behind `if (threadIdx.x < 32)` counts for what
stands behind the same condition.

Followed is only what has not waited yet: behind a wait everything is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_vgpu.lowering.control_flow import BasicBlock, Branch, control_flow, destinations
from astra_vgpu.lowering.inline import inline
from astra_vgpu.lowering.pointer_reach import (
    ANYWHERE,
    Origin,
    is_global,
    leads_to,
    origins_of,
)
from astra_vgpu.lowering.symbolic_values import (
    PURE,
    Names,
    State,
    Value,
    as_type,
)
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.parser import PtxSyntaxError, parse
from astra_vgpu.ptx.some_kernels import with_kernels
from astra_vgpu.ptx.syntax import (
    Address,
    Instruction,
    Operand,
    Symbol,
    type_bits,
)
from astra_vgpu.types import PtxUnsupported

MOST_VISITS = 10_000
"""Visits of basic blocks in one kernel after which nothing is taken as known where paths meet."""


@dataclass(frozen=True)
class LaunchParameters:
    """The parameter bytes of a launch, as far as they are known before it runs."""

    values: bytes = b""
    unknown: Sequence[tuple[int, int]] = ()
    """Start and length of what is an address, or was left undefined."""

    def at(self, start: int, size: int) -> int | None:
        if start + size > len(self.values):
            return None
        if any(start < at + length and at < start + size for at, length in self.unknown):
            return None
        return int.from_bytes(self.values[start : start + size], "little")


class EarlyAccesses:
    """The accesses of one kernel that some path leads to without a wait."""

    def __init__(self, blocks: Sequence[BasicBlock], params: Mapping[str, int]) -> None:
        """params: offset of each parameter."""
        self._blocks, self._params = blocks, params
        instructions = [instruction for block in blocks for instruction in block.body]
        self.waits = any(_is_wait(instruction) for instruction in instructions)
        self._origins = origins_of(instructions, params) if self.waits else {}
        self._known: dict[tuple[frozenset[int], LaunchParameters], Instruction | None] = {}

    def first(
        self,
        weights: Collection[int] = (),
        parameters: LaunchParameters | None = None,
    ) -> Instruction | None:
        """The first of them, in the kernel's order; None for none, or where the kernel never waits.

        weights: offsets of the parameters whose memory may be read before the wait. parameters:
        of a launch; they are looked at only where without them something would be found.
        """
        if not self.waits:
            return None
        allowed = frozenset(weights)
        found = self._first(allowed, LaunchParameters())
        if found is not None and parameters is not None and parameters.values:
            found = self._first(allowed, parameters)
        return found

    def moved(
        self,
        lines: Collection[int],
        weights: Collection[int] = (),
        parameters: LaunchParameters | None = None,
    ) -> Instruction | None:
        """The first load that stands behind the wait here and before it in the machine code.

        Args:
            lines: PTX lines of the loads that the machine code does before its wait.
            weights: offsets of the parameters whose memory may be read before the wait.
            parameters: of a launch.

        Returns:
            None where each of the loads stands before the wait here too, which first() looks at,
            reads only weights, or is not reached in the launch.
        """
        launch, allowed = parameters or LaunchParameters(), frozenset(weights)
        loads = (i for block in self._blocks for i in block.body if i.line in lines)
        found = {i.line for i in loads if self._touches(i, allowed)}
        if found:
            found -= {i.line for i in _Walk(self._blocks, self._params, launch).unwaited()}
        if not found:
            return None
        reached = _Walk(self._blocks, self._params, launch, past=True).unwaited()
        return next((i for i in reached if i.line in found and self._touches(i, allowed)), None)

    def arguments(self, instruction: Instruction) -> list[int]:
        """Offsets of the parameters that the addresses of an access may come from."""
        addresses = [o for o in instruction.operands if isinstance(o, Address)]
        origins = leads_to(addresses, self._origins, self._params)
        return sorted(origin for origin in origins if isinstance(origin, int))

    def _first(self, allowed: frozenset[int], parameters: LaunchParameters) -> Instruction | None:
        key = allowed, LaunchParameters(parameters.values, tuple(parameters.unknown))
        if key not in self._known:
            walk = _Walk(self._blocks, self._params, parameters)
            early = (i for i in walk.unwaited() if self._touches(i, allowed))
            self._known[key] = next(early, None)
        return self._known[key]

    def _touches(self, instruction: Instruction, allowed: frozenset[int]) -> bool:
        """Whether an access is to memory that the work ahead may use."""
        if not is_global(instruction) or "prefetch" in instruction.modifiers:
            return False
        addresses = [o for o in instruction.operands if isinstance(o, Address)]
        reads, writes = addresses[-1:], addresses[:1]
        if instruction.family in ("ld", "ldmatrix", "cp") and _reads_only(instruction):
            return self._reaches(reads, instruction, allowed)
        return self._reaches(writes, instruction, frozenset())

    def _reaches(
        self, addresses: Sequence[Operand], instruction: Instruction, allowed: frozenset[int]
    ) -> bool:
        origins: set[Origin] = leads_to(addresses, self._origins, self._params)
        if any(isinstance(origin, int) and origin not in allowed for origin in origins):
            return True
        explicit = "global" in {m.partition("::")[0] for m in instruction.modifiers}
        return ANYWHERE in origins and explicit


def early_accesses(ptx: Path, kernel: str) -> EarlyAccesses | None:
    """Reads one kernel of a PTX file; None where its control flow is not known."""
    try:
        module = parse(with_kernels(ptx.read_text(), {kernel}))
        parsed = module.kernels[kernel]
        blocks = control_flow(inline(module, parsed), kernel)
    except (PtxSyntaxError, PtxUnsupported, KeyError):
        return None
    return EarlyAccesses(blocks, {param.name: param.offset for param in parsed.params})


def _reads_only(instruction: Instruction) -> bool:
    """Whether it reads global memory: of copies, those to shared memory."""
    if instruction.family != "cp":
        return True
    spaces = [m for m in instruction.modifiers if m.partition("::")[0] in ("global", "shared")]
    return spaces[:1] != ["global"]


def _is_wait(instruction: Instruction) -> bool:
    return instruction.family == "griddepcontrol" and "wait" in instruction.modifiers


class _Walk:
    """All basic blocks that a thread may reach before it waits, with what it knows there."""

    def __init__(
        self,
        blocks: Sequence[BasicBlock],
        params: Mapping[str, int],
        parameters: LaunchParameters,
        *,
        past: bool = False,
    ) -> None:
        """past: what is behind a wait is followed too."""
        self._blocks, self._params, self._parameters = blocks, params, parameters
        self._past = past
        self._names = Names()
        self._states: dict[int, State] = {}
        self._visits = 0

    def unwaited(self) -> Iterator[Instruction]:
        """Instructions that may run before a wait, in the kernel's order."""
        self._states[0] = State()
        left = {0}
        while left:
            number = min(left)
            left.remove(number)
            self._visits += 1
            for target, state in self._onwards(number):
                if self._arrives(target, state):
                    left.add(target)
        for number in sorted(self._states):
            yield from self._before_wait(number, self._states[number].copy())

    def _is_end(self, instruction: Instruction) -> bool:
        return not self._past and _is_wait(instruction)

    def _arrives(self, number: int, state: State) -> bool:
        """Joins what is known on another path; whether less is known now than before."""
        known = self._states.get(number)
        joined = state
        if known is not None:
            joined = self._names.joined(number, known, state)
            if self._visits > MOST_VISITS:
                joined = State()
        self._states[number] = joined
        return known is None or (joined.values, joined.facts) != (known.values, known.facts)

    def _before_wait(self, number: int, state: State) -> Iterator[Instruction]:
        """Instructions of a block that may run before a wait; the state follows them."""
        for instruction in self._blocks[number].body:
            holds = state.holds(instruction.guard)
            if self._is_end(instruction):
                if holds:
                    return
                if holds is None and instruction.guard is not None:
                    state.learn(instruction.guard, False)
            elif holds is not False:
                yield instruction
                self._run(number, instruction, state, certain=bool(holds))

    def _onwards(self, number: int) -> Iterator[tuple[int, State]]:
        """Where a thread goes on from a block that it leaves without a wait, and what it knows."""
        block, state = self._blocks[number], self._states[number].copy()
        for _ in self._before_wait(number, state):
            pass
        if any(self._is_end(i) and state.holds(i.guard) for i in block.body):
            return
        for target in block.successors:
            after = state.copy()
            if _passes(block, target, after):
                yield target, self._names.next_pass(target, after) if target <= number else after

    def _run(self, number: int, instruction: Instruction, state: State, *, certain: bool) -> None:
        """Notes the results of an instruction, which ran for certain, or perhaps."""
        names = destinations(instruction)
        value = self._value(instruction, state) if certain and len(names) == 1 else None
        for name in names:
            place = self._names.unknown("result", number, id(instruction), name)
            state.values[name] = place if value is None else value

    def _value(self, instruction: Instruction, state: State) -> Value | None:
        if instruction.family == "ld" and "param" in instruction.modifiers:
            return self._parameter(instruction)
        if instruction.family not in PURE:
            return None
        values = [self._names.operand(operand, state) for operand in instruction.operands[1:]]
        known = [value for value in values if value is not None]
        return self._names.result(instruction, known, state) if len(known) == len(values) else None

    def _parameter(self, instruction: Instruction) -> Value | None:
        source = instruction.operands[1]
        kinds = [m for m in instruction.modifiers if is_type(m)]
        if not isinstance(source, Address) or not isinstance(source.base, Symbol) or not kinds:
            return None
        if source.base.name not in self._params:
            return None
        start = self._params[source.base.name] + source.offset
        size = type_bits(kinds[-1]) // 8
        known = self._parameters.at(start, size)
        if known is None:
            return self._names.expression("parameter", start, size)
        return as_type(known, kinds[-1])


def _passes(block: BasicBlock, target: int, state: State) -> bool:
    """Whether a thread may take this way; notes what that says about the branch's condition."""
    end = block.end
    if not isinstance(end, Branch) or end.taken == end.other:
        return True
    holds, taken = state.holds(end.guard), target == end.taken
    if holds is None:
        state.learn(end.guard, taken)
        return True
    return holds == taken
