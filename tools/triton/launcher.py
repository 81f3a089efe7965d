"""The launcher of a Triton candidate: a Python function that is read, and never executed.

    def rmsnorm(out, input, weight, tokens, h, out_stride, input_stride, eps):
        BLOCK = triton.next_power_of_2(h)
        rmsnorm_kernel[(tokens,)](out, input, weight, h, out_stride, input_stride, eps,
                                  BLOCK=BLOCK, num_warps=8 if BLOCK > 4096 else 4)

Its statements are assignments of arithmetic, if, launches and return.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import dtype_parameter, parameters
from astra_chat.tools.triton.expressions import Kind, LauncherNames, NotAllowed, kind_of

WARPS, STAGES = "num_warps", "num_stages"
MOST_STATEMENTS = 200
FORM = "a launcher has assignments, if, return and launches: kernel[(blocks,)](..., num_warps=4)"


@dataclass(frozen=True)
class KernelHead:
    """Parameters of a @triton.jit function."""

    name: str
    parameters: tuple[str, ...]
    constants: frozenset[str]
    """Parameters that are tl.constexpr."""
    defaults: Mapping[str, ast.expr]

    @staticmethod
    def of(function: ast.FunctionDef) -> KernelHead:
        """Returns the head of a function that the guard let pass."""
        given = function.args
        plain = [*given.posonlyargs, *given.args]
        defaults = dict(zip([a.arg for a in plain][::-1], given.defaults[::-1], strict=False))
        defaults |= {
            a.arg: value
            for a, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
            if value is not None
        }
        every = [*plain, *given.kwonlyargs]
        constants = frozenset(a.arg for a in every if a.annotation)
        return KernelHead(function.name, tuple(a.arg for a in every), constants, defaults)


@dataclass(frozen=True)
class Assign:
    """NAME = value; of a grid the values of its axes."""

    name: str
    values: tuple[ast.expr, ...]
    kind: Kind | None
    """None: a grid."""


@dataclass(frozen=True)
class Branch:
    test: ast.expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class Return:
    """The end of the launcher."""


@dataclass(frozen=True, eq=False)
class KernelCall:
    """kernel[grid](...); each is one of its own."""

    kernel: KernelHead
    node: ast.Call
    grid: tuple[ast.expr, ...] | str
    """One to three axes, or the name that they are assigned to."""
    given: Mapping[str, ast.expr]
    """Value of each parameter of the kernel."""
    kinds: Mapping[str, Kind]
    """Types of these values."""
    warps: ast.expr
    stages: ast.expr


Statement = Assign | Branch | Return | KernelCall


def names_of(task: Task) -> list[str]:
    """Parameters of the launcher: tensors, dims, free strides, scalars."""
    dtypes = {dtype_parameter(variable) for variable in task.variables}
    return [name for _, name in parameters(task) if name not in {*dtypes, "stream"}]


def launcher_head(task: Task) -> str:
    """Returns the first line of the launcher."""
    return f"def {task.entry}({', '.join(names_of(task))}):"


def task_names(task: Task) -> LauncherNames:
    """What the contract's names stand for in a launcher."""
    kinds: dict[str, Kind] = {arg.name: "pointer" for arg in task.args}
    kinds |= dict.fromkeys(task.dims, "int")
    kinds |= {name: "int" for arg in task.args for name in arg.stride_names}
    scalars: dict[str, Kind] = {"float": "float", "bool": "bool", "int64_t": "int"}
    kinds |= {scalar.name: scalars[scalar.type] for scalar in task.scalars}
    codes = {variable: dtype_parameter(variable) for variable in task.variables}
    return LauncherNames(kinds, {arg.name: arg.dtype for arg in task.args}, codes)


def read_launcher(
    function: ast.FunctionDef,
    task: Task,
    kernels: Mapping[str, KernelHead],
    constants: Mapping[str, ast.Constant],
) -> tuple[Statement, ...]:
    """The launcher's statements. Raises NotAllowed for the first place that is not allowed."""
    given, wanted = function.args, names_of(task)
    written = [a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    if written != wanted or given.vararg or given.kwarg or given.defaults:
        what = f"the launcher must take the contract's parameters: write {launcher_head(task)}"
        raise NotAllowed(function, what)
    known = task_names(task)
    names = LauncherNames({**known.kinds}, known.dtypes, known.codes)
    if len(list(ast.walk(function))) > 50 * MOST_STATEMENTS:
        raise NotAllowed(function, f"the launcher has more than {MOST_STATEMENTS} statements")
    reader = _Reader(names, kernels, constants)
    statements = tuple(reader.block(function.body))
    if not reader.launches:
        raise NotAllowed(function, f"{task.entry} launches no kernel: {FORM}")
    return statements


@dataclass
class _Reader:
    names: LauncherNames
    kernels: Mapping[str, KernelHead]
    constants: Mapping[str, ast.Constant]
    grids: dict[str, int] = field(default_factory=dict)
    launches: int = 0

    def block(self, body: Sequence[ast.stmt]) -> Iterator[Statement]:
        for node in body:
            match node:
                case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    yield self._assign(node, name, value)
                case ast.If(test=test, body=then, orelse=otherwise):
                    test = self._with_constants(test)
                    if kind_of(test, self.names) != "bool":
                        raise NotAllowed(test, f"if {ast.unparse(test)[:80]}: no comparison")
                    yield Branch(test, tuple(self.block(then)), tuple(self.block(otherwise)))
                case ast.Return(value=None):
                    yield Return()
                case ast.Expr(value=ast.Call(func=ast.Subscript()) as call):
                    yield self._launch(call)
                case _:
                    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")

    def _assign(self, node: ast.Assign, name: str, value: ast.expr) -> Assign:
        kinds = dict(self.names.kinds)
        if name in self.names.dtypes or name in self.constants or name in self.kernels:
            raise NotAllowed(node, f"{name}: this name cannot be assigned again")
        if isinstance(value, ast.Tuple):
            axes = tuple(self._axes(value))
            if name in kinds or self.grids.setdefault(name, len(axes)) != len(axes):
                raise NotAllowed(node, f"{name}: this name had another type before")
            return Assign(name, axes, None)
        value = self._with_constants(value)
        kind = kind_of(value, self.names)
        if kind not in ("int", "float", "bool"):
            raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {kind} cannot be assigned to a name")
        if name in self.grids or kinds.get(name, kind) != kind:
            raise NotAllowed(node, f"{name}: this name had another type before")
        kinds[name] = kind
        self.names = LauncherNames(kinds, self.names.dtypes, self.names.codes)
        return Assign(name, (value,), kind)

    def _axes(self, grid: ast.expr) -> Iterator[ast.expr]:
        axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
        if not 1 <= len(axes) <= 3:
            raise NotAllowed(grid, "a grid has one to three axes: kernel[(x, y)](...)")
        for axis in map(self._with_constants, axes):
            if isinstance(axis, ast.Lambda):
                raise NotAllowed(grid, "write the grid as a tuple, without lambda")
            if kind_of(axis, self.names) != "int":
                raise NotAllowed(axis, f"grid {ast.unparse(axis)[:80]}: it must be an integer")
            yield axis

    def _launch(self, call: ast.Call) -> KernelCall:
        assert isinstance(call.func, ast.Subscript)
        name = ast.unparse(call.func.value)
        kernel = self.kernels.get(name)
        if kernel is None:
            known = ", ".join(self.kernels) or "none"
            raise NotAllowed(call, f"{name[:80]} is not a @triton.jit function: use one of {known}")
        grid = call.func.slice
        axes: tuple[ast.expr, ...] | str
        if isinstance(grid, ast.Name) and grid.id in self.grids:
            axes = grid.id
        else:
            axes = tuple(self._axes(grid))
        options: dict[str, ast.expr] = {STAGES: ast.Constant(3), WARPS: ast.Constant(4)}
        given = self._given(call, kernel, options)
        for option in (WARPS, STAGES):
            if kind_of(options[option], self.names) != "int":
                raise NotAllowed(call, f"{option} must be an integer")
        self.launches += 1
        kinds = {name: kind_of(value, self.names) for name, value in given.items()}
        return KernelCall(kernel, call, axes, given, kinds, options[WARPS], options[STAGES])

    def _given(
        self, call: ast.Call, kernel: KernelHead, options: dict[str, ast.expr]
    ) -> dict[str, ast.expr]:
        """Values of the kernel's parameters in their order; those of `options` are set there."""
        if len(call.args) > len(kernel.parameters):
            raise NotAllowed(call, f"{kernel.name} takes {len(kernel.parameters)} arguments")
        pairs = [*zip(kernel.parameters, call.args, strict=False)]
        pairs += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
        values = dict[str, ast.expr]()
        for name, value in pairs:
            if name in options and name not in kernel.parameters:
                options[name] = self._with_constants(value)
            elif name not in kernel.parameters:
                takes = f"{', '.join(kernel.parameters)}, {WARPS}, {STAGES}"
                raise NotAllowed(call, f"{name}: {kernel.name} takes {takes}")
            elif name in values:
                raise NotAllowed(call, f"{name} is given twice")
            else:
                values[name] = self._with_constants(value)
        for name in kernel.parameters:
            if name not in values and name not in kernel.defaults:
                raise NotAllowed(call, f"{kernel.name} needs a value for {name}")
            values.setdefault(name, kernel.defaults.get(name, call))
            self._require_passable(kernel, name, values[name])
        return {name: values[name] for name in kernel.parameters}

    def _require_passable(self, kernel: KernelHead, name: str, value: ast.expr) -> None:
        kind = kind_of(value, self.names)
        also = "text" if name in kernel.constants else "pointer"
        if kind not in (also, "int", "float", "bool", "none") or (
            kind == "pointer" and not isinstance(value, ast.Name)
        ):
            place = f"{name}={ast.unparse(value)[:60]}"
            raise NotAllowed(value, f"{place}: a value of type {kind} cannot be passed here")
        if kind == "text" and not isinstance(value, ast.Constant):
            raise NotAllowed(value, f"{name}: write strings as literals")

    def _with_constants(self, node: ast.expr) -> ast.expr:
        """With the file's constants as literals."""
        found: ast.expr = _Constants(self.constants, self.names).visit(node)
        return found


class _Constants(ast.NodeTransformer):
    def __init__(self, constants: Mapping[str, ast.Constant], names: LauncherNames) -> None:
        self._constants, self._names = constants, names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._constants.get(node.id) if node.id not in self._names.kinds else None
        return ast.copy_location(ast.Constant(found.value), node) if found else node
