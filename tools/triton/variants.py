"""What Triton is asked to compile: for every launch its element types and constants.

The launcher's syntax tree is evaluated for many calls that the contract allows: all dtypes, and
extents at the ends of the domain, powers of two and numbers that the launcher names, each with its
neighbours. The constants that its launches have there are compiled. A call with any other constant
is an error that the launcher returns. Of Triton's own specializations only multiples of 16 are made
(translated.py): an integer that happens to be 1 is none. Integers have 32 bits where they fit in
all these calls, else 64.
"""

from __future__ import annotations

import ast
import itertools
import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.compile import TYPES, Variant
from astra_chat.tools.triton.expressions import DTYPE_NAMES, NotAllowed, function_of
from astra_chat.tools.triton.launcher import (
    Assign,
    Branch,
    KernelCall,
    Return,
    Statement,
    task_names,
)
from astra_chat.tools.types import DTypeName

Value = int | float | bool | str | None
MOST_VARIANTS, MOST_CALLS, MOST_LISTED = 128, 6000, 64
NARROW, WIDE, LARGEST = 2**31 - 1, 2**33, 2**256
WARPS = (1, 2, 4, 8, 16, 32)


def next_power_of_2(value: int) -> int:
    """The smallest power of two that is at least `value`."""
    return 1 << (value - 1).bit_length() if value > 0 else 0


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": next_power_of_2,
}


@dataclass(frozen=True)
class Compiling:
    """One compilation of a launch's kernel, and when it is taken."""

    types: Mapping[str, DTypeName]
    """Dtype of each type variable."""
    constants: Mapping[str, Value]
    """Values of the kernel's constants."""
    variant: Variant
    multiples: Mapping[str, frozenset[bool]]
    """Whether each address and integer is a multiple of 16, in all calls that take it."""


@dataclass
class _Met:
    """What was seen of a launch."""

    constants: dict[tuple[object, ...], dict[str, DTypeName]] = field(default_factory=dict)
    """Dtypes, constants, warps and stages as a key, with the dtypes by type variable."""
    multiples: dict[tuple[object, ...], dict[str, set[bool]]] = field(default_factory=dict)
    """Whether integers were multiples of 16, by such a key."""
    wide: set[str] = field(default_factory=set)
    """Parameters that need 64 bits."""


def compilations(statements: Sequence[Statement], task: Task) -> dict[KernelCall, list[Compiling]]:
    """All compilations of each launch that can be reached. Raises NotAllowed."""
    met = dict[KernelCall, _Met]()
    for types, names in _calls(task, statements):
        try:
            _follow(statements, dict(names), types, met)
        except (ZeroDivisionError, OverflowError):
            continue  # the launcher crashes, which its check finds
    return {launch: _compilings(launch, one, task) for launch, one in met.items()}


def _follow(
    statements: Sequence[Statement],
    names: dict[str, Any],
    types: dict[str, DTypeName],
    met: dict[KernelCall, _Met],
) -> bool:
    """Whether the launcher goes on after these statements."""
    for one in statements:
        match one:
            case Assign(name=name, values=values):
                names[name], *_ = [_value(value, names) for value in values]
            case Branch(test=test, then=then, otherwise=otherwise):
                body = then if _value(test, names) else otherwise
                if not _follow(body, names, types, met):
                    return False
            case Return():
                return False
            case KernelCall():
                _note(one, names, types, met.setdefault(one, _Met()))
    return True


def _note(
    launch: KernelCall, names: dict[str, Any], types: dict[str, DTypeName], met: _Met
) -> None:
    kernel = launch.kernel
    for axis in [ast.Name(launch.grid)] if isinstance(launch.grid, str) else launch.grid:
        _value(ast.copy_location(axis, launch.node), names)
    given = {name: _value(value, names) for name, value in launch.given.items()}
    constants = [given[name] for name in kernel.parameters if name in kernel.constants]
    warps, stages = _value(launch.warps, names), _value(launch.stages, names)
    if warps not in WARPS:
        raise NotAllowed(launch.node, f"num_warps={warps}: it must be one of {WARPS}")
    if not 1 <= stages <= 16:
        raise NotAllowed(launch.node, f"num_stages={stages}: it must be 1 to 16")
    key = (*types.values(), *constants, warps, stages)
    met.constants.setdefault((repr(key), *key), types)
    multiples = met.multiples.setdefault((repr(key), *key), {})
    for name, value in given.items():
        if isinstance(value, int):
            multiples.setdefault(name, set()).add(value % 16 == 0)
    if len(met.constants) > MOST_VARIANTS:
        raise NotAllowed(
            launch.node,
            f"{kernel.name}: over the contract's dims, its constants take so many values that more"
            f" than {MOST_VARIANTS} kernels would be needed; use triton.next_power_of_2(...), or"
            " assign literals in the branches of an `if`",
        )
    met.wide.update(n for n, v in given.items() if isinstance(v, int) and abs(v) > NARROW)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Value of an expression that `kind_of` allows. Raises NotAllowed."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise NotAllowed(node, f"{name} has no value on some path to this line")
            return names[name]
        case ast.Attribute(value=ast.Name(id=name)):
            return DTYPE_NAMES.get(ast.unparse(node)) or names[name]
        case ast.UnaryOp() | ast.BinOp() | ast.BoolOp():
            return _combined(node, names)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_value(one, names) for one in (left, *others)]
            pairs = zip(sides, ops, sides[1:], strict=False)
            return all(_OPERATIONS[type(op)](a, b) for a, op, b in pairs)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Call(args=given):
            return _FUNCTIONS[str(function_of(node))](*(_value(one, names) for one in given))
    raise AssertionError(ast.dump(node))


def _combined(node: ast.UnaryOp | ast.BinOp | ast.BoolOp, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.UnaryOp(op=op, operand=inner):
            found = _value(inner, names)
            return not found if isinstance(op, ast.Not) else -found
        case ast.BoolOp(op=op, values=values):
            pick = all if isinstance(op, ast.And) else any
            return pick(_value(one, names) for one in values)
        case ast.BinOp(left=left, op=operation, right=right):
            found = _OPERATIONS[type(operation)](_value(left, names), _value(right, names))
            if abs(found) > LARGEST:
                raise NotAllowed(node, "a number in the launcher is too large")
            return found


def _calls(
    task: Task, statements: Sequence[Statement]
) -> Iterator[tuple[dict[str, DTypeName], dict[str, Any]]]:
    """Dtypes of the type variables, and what the launcher's parameters are; a tensor is its dtype,
    or None."""
    choosing, numbers = set[str](), set[int]()
    for node in _choosing(statements):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                choosing.add(inner.id)
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, int):
                numbers.add(int(inner.value))
    axes: dict[str, list[Any]] = {
        name: _extents(task, name, numbers, name in choosing) for name in task.dims
    }
    axes |= {one.name: _scalar_values(task, one.name) for one in task.scalars}
    strides = {name: arg for arg in task.args for name in arg.stride_names}
    axes |= {n: [0, 1, *task.dims] if n in choosing else [0, 1] for n in strides}
    axes |= {arg.name: [True, False] if arg.optional else [True] for arg in task.args}
    every: Iterator[tuple[Any, ...]] = itertools.product(*axes.values())
    if prod(map(len, axes.values())) > MOST_CALLS:
        draws, ends = random.Random(0), [[one[0], one[-1]] for one in axes.values()]
        corners = itertools.islice(itertools.product(*ends), MOST_CALLS)
        drawn = [tuple(draws.choice(one) for one in axes.values()) for _ in range(MOST_CALLS)]
        every = itertools.chain(corners, drawn)
    kinds = list(zip(task.types, task.combinations, strict=True))
    for some in every:
        drawn_call = dict(zip(axes, some, strict=True))
        for types, kind in kinds:
            call = dict(drawn_call)
            if not all(dim.allows(call[n], kind.dtype) for n, dim in task.dims.items()):
                continue
            dtypes = {arg.name: types.get(arg.dtype, arg.dtype) for arg in task.args}
            for name, arg in strides.items():
                step, chosen = arg.stride_step(kind.case({})), call[name]
                call[name] = call[chosen] if isinstance(chosen, str) else WIDE + chosen * step
            yield {**types}, call | {n: d if call[n] else None for n, d in dtypes.items()}


def _choosing(statements: Sequence[Statement]) -> Iterator[ast.expr]:
    """Expressions that choose constants."""
    for one in statements:
        match one:
            case Assign(values=values):
                yield from values
            case Branch(test=test, then=then, otherwise=otherwise):
                yield test
                yield from _choosing([*then, *otherwise])
            case KernelCall(kernel=kernel, given=given, warps=warps, stages=stages):
                yield from (warps, stages, *(given[name] for name in kernel.constants))


def _extents(task: Task, name: str, numbers: set[int], choosing: bool) -> list[int]:
    dim = task.dims[name]
    low, high, step = dim.min, dim.max, dim.multiple_of
    if dim.values:
        return list(dim.values)
    if not choosing:
        steps = {step, *(dim.step(dtype) for dtype in task.dtypes)}
        ends = {-(-low // by) * by + more * by for by in steps for more in range(4)}
        return sorted(ends | {dim.nearest(high, dtype) for dtype in task.dtypes})
    if (high - low) // step < MOST_LISTED:
        return list(range(-(-low // step) * step, high + 1, step))
    about = {low, high, *numbers, *(2**k for k in range(high.bit_length()))}
    steps = {step, *(dim.step(dtype) for dtype in task.dtypes)}
    near = {(n + by) // s * s for n in about for s in steps for by in (-s, 0, s)}
    return sorted(one for one in near if low <= one <= high)


def _scalar_values(task: Task, name: str) -> list[float]:
    (scalar,) = (one for one in task.scalars if one.name == name)
    if scalar.type == "bool":
        return [False, True]
    low, high = scalar.range or (scalar.value, scalar.value)
    found = sorted(v for v in {*scalar.named, low, high, low + 1} if scalar.allows(v))
    return found if scalar.type == "float" else [int(one) for one in found]


def _compilings(launch: KernelCall, met: _Met, task: Task) -> list[Compiling]:
    kernel, names = launch.kernel, task_names(task)
    called = {str(dtype): name for dtype, name in TYPES.items()}
    found = []
    for key, types in met.constants.items():
        *values, warps, stages = key[1 + len(types) :]
        own = [name for name in kernel.parameters if name in kernel.constants]
        chosen: dict[str, Any] = dict(zip(own, values, strict=True))
        signature, constants = dict[str, str](), dict(chosen)
        for name, value in launch.given.items():
            kind = launch.kinds[name]
            one = kind == "int" and isinstance(value, ast.Constant) and value.value == 1
            if name in kernel.constants or one or kind == "none":
                signature[name] = "constexpr"
                constants.setdefault(name, 1 if one else None)
            elif isinstance(value, ast.Name) and kind == "pointer":
                dtype = types.get(names.dtypes[value.id], names.dtypes[value.id])
                if dtype not in called:
                    raise NotAllowed(launch.node, f"{value.id}: Triton does not support {dtype}")
                signature[name] = f"*{called[dtype]}"
            elif kind == "float":
                signature[name] = "fp32"
            else:
                signature[name] = "i64" if name in met.wide else "i32"
        variant = Variant(signature, constants, int(str(warps)), int(str(stages)))
        multiples = {name: frozenset(some) for name, some in met.multiples[key].items()}
        aligned = {arg.name: arg.min_alignment_bytes % 16 == 0 for arg in task.args}
        for name, value in launch.given.items():
            if isinstance(value, ast.Name) and launch.kinds[name] == "pointer":
                multiples[name] = frozenset({True, aligned[value.id]})
        found.append(Compiling(types, chosen, variant, multiples))
    return found
