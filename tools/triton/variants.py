"""What Triton is asked to compile: for every launch its element types and constants.

The launcher's ways are followed with names for values, so that each launch is known as arithmetic
over the contract's dims. A constant must have few values over the contract's domain; every one is
compiled, for every combination of dtypes. Of Triton's own specializations only multiples of 16 are
made (translated.py): an integer that happens to be 1 is none. Integers have 32 bits where the
contract's domain fits, else 64.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.compile import TYPES, Variant
from astra_chat.tools.triton.expressions import Names, NotAllowed, kind_of
from astra_chat.tools.triton.launcher import (
    Assign,
    Branch,
    Launch,
    Return,
    Statement,
    task_names,
)
from astra_chat.tools.triton.values import Point, Value, domain, points
from astra_chat.tools.types import DTypeName

MOST_WAYS, MOST_NODES, MOST_VARIANTS = 256, 20_000, 128
NARROW = 2**31 - 1
WARPS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class _Reached:
    """A launch on one way through the launcher, in the contract's names."""

    launch: Launch
    given: Mapping[str, ast.expr]
    warps: ast.expr
    stages: ast.expr
    tests: tuple[tuple[ast.expr, bool], ...]
    """Conditions of the way, and how each turned out."""


@dataclass(frozen=True)
class Compiling:
    """One compilation of a launch's kernel, and when it is taken."""

    types: Mapping[str, DTypeName]
    """Dtype of each type variable."""
    constants: Mapping[str, Value]
    """Values of the kernel's constants."""
    variant: Variant


def compilations(statements: Sequence[Statement], task: Task) -> dict[Launch, list[Compiling]]:
    """All compilations of each launch that can be reached. Raises NotAllowed."""
    names = task_names(task)
    ways = _Ways(names)
    ways.follow(tuple(statements), {}, ())
    by_launch = dict[Launch, list[_Reached]]()
    for one in ways.reached:
        by_launch.setdefault(one.launch, []).append(one)
    return {launch: _of_launch(launch, some, task, names) for launch, some in by_launch.items()}


class _Ways:
    """Follows every way through a launcher."""

    def __init__(self, names: Names) -> None:
        self.names, self.reached, self.count = names, list[_Reached](), 0

    def follow(
        self,
        statements: tuple[Statement, ...],
        bound: Mapping[str, ast.expr],
        tests: tuple[tuple[ast.expr, bool], ...],
    ) -> None:
        for place, one in enumerate(statements):
            rest = statements[place + 1 :]
            match one:
                case Assign(name=name, values=values, kind=kind):
                    found = [self._in_dims(value, bound) for value in values]
                    bound = {**bound, name: found[0] if kind else _grid(found)}
                case Branch(test=test, then=then, otherwise=otherwise):
                    known = self._in_dims(test, bound)
                    for way, body in ((True, then), (False, otherwise)):
                        self.follow((*body, *rest), bound, (*tests, (known, way)))
                    return
                case Return():
                    break
                case Launch():
                    self._reach(one, bound, tests)
        self.count += 1
        if self.count > MOST_WAYS:
            raise NotAllowed(ast.Pass(), f"the launcher has more than {MOST_WAYS} ways through it")

    def _reach(
        self,
        launch: Launch,
        bound: Mapping[str, ast.expr],
        tests: tuple[tuple[ast.expr, bool], ...],
    ) -> None:
        given = {name: self._in_dims(value, bound) for name, value in launch.given.items()}
        for axis in [ast.Name(launch.grid)] if isinstance(launch.grid, str) else launch.grid:
            self._in_dims(ast.copy_location(axis, launch.node), bound)
        warps, stages = (self._in_dims(one, bound) for one in (launch.warps, launch.stages))
        self.reached.append(_Reached(launch, given, warps, stages, tests))

    def _in_dims(self, node: ast.expr, bound: Mapping[str, ast.expr]) -> ast.expr:
        size = 0
        for inner in ast.walk(node):
            size += 1
            if isinstance(inner, ast.Name):
                if inner.id in bound:
                    size += getattr(bound[inner.id], "size", 1)
                elif inner.id not in self.names.kinds and inner.id not in _MODULES:
                    raise NotAllowed(inner, f"{inner.id} has no value on some way to this line")
        if size > MOST_NODES:
            raise NotAllowed(node, "the launcher's arithmetic is too long")
        found: ast.expr = _Bound(bound).visit(copy.deepcopy(node))
        found.size = size  # type: ignore[attr-defined]
        return found


def _grid(axes: list[ast.expr]) -> ast.expr:
    grid = ast.Tuple(axes)
    grid.size = sum(getattr(axis, "size", 1) for axis in axes)  # type: ignore[attr-defined]
    return grid


_MODULES = ("triton", "tl", "min", "max")


class _Bound(ast.NodeTransformer):
    def __init__(self, bound: Mapping[str, ast.expr]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._bound.get(node.id, node)


def _of_launch(
    launch: Launch, some: Sequence[_Reached], task: Task, names: Names
) -> list[Compiling]:
    types = _argument_types(launch, some, task, names)
    found = dict[str, Compiling]()
    for one in some:
        for compiling in _of_way(one, types, task, names):
            found.setdefault(repr(compiling), compiling)
            if len(found) > MOST_VARIANTS:
                raise NotAllowed(
                    launch.node,
                    f"{launch.kernel.name}: its dtypes and constants give more than"
                    f" {MOST_VARIANTS} kernels: let its constants have fewer values",
                )
    return list(found.values())


def _of_way(
    one: _Reached, types: Mapping[str, str], task: Task, names: Names
) -> Iterator[Compiling]:
    kernel = one.launch.kernel
    selecting = {name: one.given[name] for name in kernel.parameters if name in kernel.constants}
    options = {"num_warps": one.warps, "num_stages": one.stages}
    for point in points(task, names, [*selecting.values(), *options.values()]):
        if not all(way in (point.values(test) or {way}) for test, way in one.tests):
            continue
        each = {
            name: sorted(_few(point, name, node, one), key=repr)
            for name, node in {**selecting, **options}.items()
        }
        for values in itertools.product(*each.values()):
            chosen = dict(zip(each, values, strict=True))
            warps, stages = chosen.pop("num_warps"), chosen.pop("num_stages")
            if warps not in WARPS:
                raise NotAllowed(one.launch.node, f"num_warps={warps}: it must be one of {WARPS}")
            if not isinstance(stages, int) or not 1 <= stages <= 16:
                raise NotAllowed(one.launch.node, f"num_stages={stages}: it must be 1 to 16")
            variant = _variant(one.launch, types, point, names, chosen, int(warps or 4), stages)
            yield Compiling(dict(point.types), chosen, variant)


def _few(point: Point, name: str, node: ast.expr, one: _Reached) -> frozenset[Value]:
    found = point.values(node)
    if found is None:
        raise NotAllowed(
            one.launch.node,
            f"{name}={ast.unparse(node)[:60]}: it has too many values over the contract's dims; use"
            " triton.next_power_of_2(...), or literals under if",
        )
    return found


def _argument_types(
    launch: Launch, some: Sequence[_Reached], task: Task, names: Names
) -> dict[str, str]:
    """Triton's type of each number that is passed; "constexpr" for None and the literal 1."""
    whole = Point(names, {}, domain(task), {})
    found = dict[str, str]()
    for name in launch.kernel.parameters:
        nodes = [one.given[name] for one in some]
        kind = kind_of(nodes[0], names)
        if name in launch.kernel.constants or kind == "pointer":
            continue
        literals = {node.value if isinstance(node, ast.Constant) else ... for node in nodes}
        ranges = [whole.range_of(node) for node in nodes]
        if literals <= {None} or (literals == {1} and kind == "int"):
            found[name] = "constexpr"
        elif kind == "float":
            found[name] = "fp32"
        else:
            fits = all(r and -NARROW <= r[0] and r[1] <= NARROW for r in ranges)
            found[name] = "i32" if kind == "bool" or fits else "i64"
    return found


def _variant(
    launch: Launch,
    types: Mapping[str, str],
    point: Point,
    names: Names,
    chosen: Mapping[str, Value],
    warps: int,
    stages: int,
) -> Variant:
    signature, constants = dict[str, str](), dict(chosen)
    for name in launch.kernel.parameters:
        value = launch.given[name]
        if name in launch.kernel.constants:
            signature[name] = "constexpr"
        elif name in types:
            signature[name] = types[name]
            if types[name] == "constexpr":
                constants[name] = getattr(value, "value", 1)
        else:
            assert isinstance(value, ast.Name)
            dtype = names.dtypes[value.id]
            dtype = point.types.get(dtype, dtype)
            called = {str(one): name for one, name in TYPES.items()}.get(dtype)
            if called is None:
                raise NotAllowed(launch.node, f"{value.id}: Triton does not support {dtype}")
            signature[name] = f"*{called}"
    return Variant(signature, constants, warps, stages)
