"""What arithmetic of a launcher can give over the contract's domain: ranges, and few values."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.expressions import DTYPE_NAMES, Names, NotAllowed, function_of
from astra_chat.tools.types import DTypeName

Value = int | float | bool | str | None
Range = tuple[float, float]
Values = frozenset[Value]
MOST_VALUES = 64
"""Most values of a dim that are compiled one by one."""
EITHER: Values = frozenset({True, False})
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


_PICKED: dict[str, Callable[[Any, Any], Any]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
}


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is at least `value`."""
    return 1 << (value - 1).bit_length() if value > 0 else 0


def domain(task: Task) -> dict[str, Range]:
    """Ranges of the launcher's integers, as far as the contract bounds them."""
    found: dict[str, Range] = {name: (dim.min, dim.max) for name, dim in task.dims.items()}
    for scalar in task.scalars:
        if scalar.type == "int64_t" and (scalar.values or scalar.range):
            ends = scalar.range or (min(scalar.values), max(scalar.values))
            found[scalar.name] = (int(ends[0]), int(ends[1]))
    return found


def listed_values(task: Task, name: str) -> list[Value] | None:
    """All values of a dim or scalar; None where they are not few."""
    if name in task.dims:
        dim = task.dims[name]
        step = dim.multiple_of
        few = dim.values or range(-(-dim.min // step) * step, dim.max + 1, step)
        return list(few) if len(few) <= MOST_VALUES else None
    for scalar in task.scalars:
        if scalar.name == name and scalar.type == "bool":
            return [False, True]
        if scalar.name == name and scalar.type == "int64_t" and scalar.values:
            return [int(value) for value in scalar.values]
    return None


@dataclass(frozen=True)
class Point:
    """Part of the domain: element types, and values and ranges that are chosen there."""

    names: Names
    types: Mapping[str, DTypeName]
    """Dtype of each type variable."""
    ranges: Mapping[str, Range]
    chosen: Mapping[str, Value]
    """Values of names and of next_power_of_2(...), by their text."""

    def range_of(self, node: ast.expr) -> Range | None:
        """Smallest and largest value; None where there is no bound."""
        match node:
            case ast.Constant(value=int(value)):
                return (value, value)
            case ast.Name(id=name):
                return self.ranges.get(name)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                found = self.range_of(inner)
                return (-found[1], -found[0]) if found else None
            case ast.BinOp(left=left, op=op, right=right):
                first, second = self.range_of(left), self.range_of(right)
                return _combined(op, first, second) if first and second else None
            case ast.IfExp(body=body, orelse=orelse):
                return _hull([self.range_of(body), self.range_of(orelse)])
            case ast.Call(args=given):
                return self._call_range(function_of(node), [self.range_of(one) for one in given])
        return None

    def _call_range(self, called: str | None, given: list[Range | None]) -> Range | None:
        known = [one for one in given if one]
        if called in ("min", "max") and len(known) == len(given):
            pick = min if called == "min" else max
            return pick(one[0] for one in known), pick(one[1] for one in known)
        if called == "cdiv" and len(known) == 2 and known[1][0] > 0:
            ends = [-(-a // b) for a in known[0] for b in known[1]]
            return min(ends), max(ends)
        if called == "next_power_of_2" and len(known) == 1:
            return next_power_of_2(int(known[0][0])), next_power_of_2(int(known[0][1]))
        return None

    def values(self, node: ast.expr) -> Values | None:
        """Every value that an expression may have here; None where they are not few."""
        text = ast.unparse(node)
        if text in self.chosen:
            return frozenset({self.chosen[text]})
        match node:
            case ast.Constant(value=int() | float() | str() | None as value):
                return frozenset({value})
            case ast.UnaryOp(op=op, operand=inner):
                turned: Callable[[Any], Value] = (
                    operator.not_ if isinstance(op, ast.Not) else operator.neg
                )
                found = self.values(inner)
                return found and frozenset(map(turned, found))
            case ast.BinOp(left=left, op=op, right=right):
                return _pairs(_ARITHMETIC[type(op)], self.values(left), self.values(right))
            case ast.BoolOp(op=op, values=values):
                pick = all if isinstance(op, ast.And) else any
                each = [self.values(one) or EITHER for one in values]
                return frozenset(pick(some) for some in itertools.product(*each))
            case ast.Compare():
                return self._compared(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                ways = [body if way else orelse for way in self.values(test) or EITHER]
                found_ways = [self.values(way) for way in ways]
                few = [one for one in found_ways if one is not None]
                return frozenset().union(*few) if len(few) == len(ways) else None
            case ast.Call(args=given):
                return self._called(function_of(node), [self.values(one) for one in given])
        return None

    def _called(self, called: str | None, given: list[Values | None]) -> Values | None:
        first, *others = given
        if called == "next_power_of_2":
            return first and frozenset(next_power_of_2(int(one or 0)) for one in first)
        for other in others:
            first = _pairs(_PICKED[str(called)], first, other)
        return first

    def _compared(self, node: ast.Compare) -> Values:
        sides = [node.left, *node.comparators]
        found = [True]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            found = [a and bool(b) for a in found for b in self._pair(left, op, right)]
        return frozenset(found)

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Values:
        if type(op) not in _ARITHMETIC:
            return EITHER
        if (dtype := self._dtype(left)) is not None:
            same = dtype == self._dtype(right)
            return frozenset({same if isinstance(op, ast.Eq) else not same})
        compared = _ARITHMETIC[type(op)]
        exact = _pairs(compared, self.values(left), self.values(right))
        if exact is not None:
            return exact
        ends = self.range_of(left), self.range_of(right)
        if ends[0] is None or ends[1] is None or isinstance(op, ast.Eq | ast.NotEq):
            return EITHER
        corners = {bool(compared(a, b)) for a in ends[0] for b in ends[1]}
        return frozenset(corners)

    def _dtype(self, node: ast.expr) -> str | None:
        text = ast.unparse(node)
        if text in DTYPE_NAMES:
            return DTYPE_NAMES[text]
        dtype = self.names.dtypes.get(text.removesuffix(".dtype")) if "." in text else None
        return self.types.get(dtype, dtype) if dtype else None


def points(task: Task, names: Names, selecting: list[ast.expr]) -> Iterator[Point]:
    """The parts of the domain in which the expressions that select a kernel have few values: for
    every combination of dtypes, and of the values of names and next_power_of_2(...) in them. Raises
    NotAllowed where there are too many."""
    bounds = domain(task)
    whole = Point(names, {}, bounds, {})
    atoms = dict[str, list[tuple[Value, dict[str, Range]]]]()
    for node in selecting:
        for atom in _atoms(node):
            atoms.setdefault(ast.unparse(atom), _choices(task, whole, atom))
    known = {text: choices for text, choices in atoms.items() if choices}
    number = 1
    for choices in known.values():
        number *= len(choices)
    if number > 4096:
        raise NotAllowed(selecting[0], f"its constants have {number:,} combinations of values")
    for types in task.types:
        for some in itertools.product(*known.values()):
            ranges = dict(bounds)
            for _, narrowed in some:
                for name, (low, high) in narrowed.items():
                    ranges[name] = (max(low, ranges[name][0]), min(high, ranges[name][1]))
            if all(low <= high for low, high in ranges.values()):
                chosen = {text: one for text, (one, _) in zip(known, some, strict=True)}
                yield Point(names, types, ranges, chosen)


def _atoms(node: ast.expr) -> Iterator[ast.expr]:
    """Names, and calls of next_power_of_2, that are in an expression."""
    if isinstance(node, ast.Call) and function_of(node) == "next_power_of_2":
        yield node
    elif isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.Attribute):
        return
    else:
        inner = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        for child in inner:
            if isinstance(child, ast.expr):
                yield from _atoms(child)


def _choices(task: Task, whole: Point, atom: ast.expr) -> list[tuple[Value, dict[str, Range]]]:
    """Values of an atom, each with the ranges of names in which it has it; none: too many."""
    if isinstance(atom, ast.Name):
        listed = listed_values(task, atom.id) or []
        bounded = atom.id in whole.ranges
        return [(v, {atom.id: (v, v)} if bounded else {}) for v in listed if isinstance(v, int)]
    assert isinstance(atom, ast.Call)
    (inner,) = atom.args
    ends = whole.range_of(inner)
    if ends is None:
        return []
    low, high = (next_power_of_2(max(1, int(end))) for end in ends)
    powers = [2**n for n in range(low.bit_length() - 1, high.bit_length())]
    name = inner.id if isinstance(inner, ast.Name) else ""
    return [(one, {name: (one // 2 + 1, one)} if name else {}) for one in powers]


def _combined(op: ast.operator, left: Range, right: Range) -> Range | None:
    if isinstance(op, ast.Mod):
        return (0, right[1] - 1) if right[0] > 0 else None
    if isinstance(op, ast.Div) or (isinstance(op, ast.FloorDiv) and right[0] <= 0):
        return None
    applied = _ARITHMETIC[type(op)]
    ends = [applied(a, b) for a in left for b in right]
    return min(ends), max(ends)


def _hull(ranges: list[Range | None]) -> Range | None:
    known = [one for one in ranges if one]
    if len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _pairs(
    applied: Callable[[Any, Any], Any], left: Values | None, right: Values | None
) -> Values | None:
    if left is None or right is None or len(left) * len(right) > 1024:
        return None
    try:
        return frozenset(applied(a, b) for a in left for b in right)
    except (ZeroDivisionError, OverflowError, TypeError):
        return None
