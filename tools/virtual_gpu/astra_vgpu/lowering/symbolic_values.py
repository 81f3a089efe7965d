"""Values of registers along one path of a thread: numbers, or expressions that name what is not
known, and how conditions on the way turned out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import (
    Guard,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Special,
    type_bits,
)


@dataclass(frozen=True, eq=False)
class Expression:
    """A value that is not known. Equal ones are one object: `Names.expression`."""

    parts: tuple[object, ...]
    stable: bool
    """It is the same in every pass of a loop."""


Value = int | Expression
PURE = frozenset(
    "mov cvt cvta add sub mul mad and or xor not shl shr setp selp min max neg abs bfe".split()
)
"""Families whose result depends on their operands alone."""
_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_OPPOSITE = {"ne": "eq", "ge": "lt", "gt": "le", "hs": "lo", "hi": "ls"}
_CHANGING = ("%clock", "%globaltimer")
"""Special registers that read otherwise each time."""


@dataclass
class State:
    """What a thread knows at one place."""

    values: dict[str, Value] = field(default_factory=dict)
    """Values of registers, by name."""
    facts: dict[Expression, bool] = field(default_factory=dict)
    """How conditions on the way turned out, by the value of their predicate."""

    def copy(self) -> State:
        return State(dict(self.values), dict(self.facts))

    def truth(self, value: Value) -> bool | None:
        """Whether a predicate is true; None where that is not known."""
        if isinstance(value, int):
            return bool(value)
        if value.parts[0] == "not" and isinstance(value.parts[1], Expression):
            inner = self.truth(value.parts[1])
            return None if inner is None else not inner
        return self.facts.get(value)

    def holds(self, guard: Guard | None) -> bool | None:
        """Whether a guard does; None where that is not known."""
        if guard is None:
            return True
        value = self.values.get(guard.register.name)
        known = None if value is None else self.truth(value)
        return None if known is None else known != guard.negated

    def learn(self, guard: Guard, holds: bool) -> None:
        value, truth = self.values.get(guard.register.name), holds != guard.negated
        while isinstance(value, Expression) and value.parts[0] == "not":
            inner = value.parts[1]
            value, truth = inner if isinstance(inner, Expression) else None, not truth
        if isinstance(value, Expression):
            self.facts[value] = truth


class Names:
    """The expressions of one walk through a kernel."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Expression] = {}

    def expression(self, *parts: object) -> Expression:
        if parts not in self._known:
            stable = all(part.stable for part in parts if isinstance(part, Expression))
            self._known[parts] = Expression(parts, stable)
        return self._known[parts]

    def unknown(self, *parts: object) -> Expression:
        """What is another value each time: a loaded one, or one that paths differ in."""
        if parts not in self._known:
            self._known[parts] = Expression(parts, False)
        return self._known[parts]

    def joined(self, block: int, one: State, other: State) -> State:
        """What holds on both paths to a basic block."""
        state = State()
        for name, value in one.values.items():
            if name in other.values:
                same = value is other.values[name] or value == other.values[name]
                state.values[name] = value if same else self.unknown("joined", block, name)
        state.facts = {v: t for v, t in one.facts.items() if other.facts.get(v) is t}
        return state

    def next_pass(self, block: int, state: State) -> State:
        """What is still known where a loop leads back to a block: names of what another pass
        computes again would stand for two values."""
        values = {
            name: value
            if isinstance(value, int) or value.stable
            else self.unknown("joined", block, name)
            for name, value in state.values.items()
        }
        return State(values, {v: t for v, t in state.facts.items() if v.stable})

    def operand(self, operand: Operand, state: State) -> Value | None:
        match operand:
            case Immediate(value=value, kind="int"):
                return value
            case Register(name=name):
                return state.values.get(name)
            case Negated(register=register):
                negated = state.values.get(register.name)
                return None if negated is None else self._not(negated)
            case Special(name=name) if not name.startswith(_CHANGING):
                return self.expression("special", name)
            case _:
                return None

    def result(self, instruction: Instruction, values: Sequence[Value], state: State) -> Value:
        """Result of an instruction of the PURE families: a number where its operands say so."""
        family = instruction.family
        kinds = [m for m in instruction.modifiers if is_type(m)] or ["b32"]
        kind = kinds[-1]
        if family in ("mov", "cvta"):
            return values[0]
        if family == "setp":
            return self._comparison(instruction, values, kind)
        if family == "selp" and (chosen := state.truth(values[2])) is not None:
            return values[0] if chosen else values[1]
        if kind == "pred":
            return self._logic(family, values, state)
        numbers = [value for value in values if isinstance(value, int)]
        if len(numbers) == len(values) and not any("f" in k for k in kinds):
            if family in _FOLDED:
                return as_type(_FOLDED[family](numbers[0], numbers[1]), kind)
            if family == "cvt":
                return as_type(as_type(numbers[0], kind), kinds[0])
        return self.expression(instruction.opcode, *values)

    def _not(self, value: Value) -> Value:
        if isinstance(value, int):
            return int(not value)
        return self.expression("not", value)

    def _logic(self, family: str, values: Sequence[Value], state: State) -> Value:
        """not, and, or, xor of predicates; one operand may decide."""
        if family == "not":
            return self._not(values[0])
        truths = [state.truth(value) for value in values]
        if None not in truths and family in _FOLDED:
            return _FOLDED[family](*(int(bool(truth)) for truth in truths)) & 1
        if family in ("and", "or"):
            decides = family == "or"
            if decides in truths:
                return int(decides)
            rest = [value for value, truth in zip(values, truths, strict=True) if truth is None]
            if len(rest) == 1:
                return rest[0]
        return self.expression(family, *values)

    def _comparison(self, instruction: Instruction, values: Sequence[Value], kind: str) -> Value:
        how = next((m for m in instruction.modifiers if m in _COMPARED), "")
        if not how or len(values) != 2 or "f" in kind:
            return self.expression(instruction.opcode, *values)
        one, other = values
        if isinstance(one, int) and isinstance(other, int):
            return int(_COMPARED[how](as_type(one, kind), as_type(other, kind)))
        if one is other:
            return int(_COMPARED[how](0, 0))
        if how in _OPPOSITE:
            return self._not(self.expression("setp", _OPPOSITE[how], kind, one, other))
        return self.expression("setp", how, kind, one, other)


def as_type(value: int, kind: str) -> int:
    """A number as a register of this type holds it."""
    if kind == "pred" or not is_type(kind):
        return value
    bits = type_bits(kind)
    cut = value & ((1 << bits) - 1)
    return cut - (1 << bits) if kind.startswith("s") and cut >> (bits - 1) else cut
