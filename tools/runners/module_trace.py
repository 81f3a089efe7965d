"""Reads a PyTorch module in a walled process: its contract, its operators, its own errors.

`python -m astra_chat.tools.runners.module_trace FILE CLASS ANSWER`: the answer is a file of JSON.
Forward is traced with sizes as symbols: equal sizes of inputs share one, and one that has to equal
a weight's size, or is compared with a number, is that number.
"""

from __future__ import annotations

import json
import operator
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.overrides import TorchFunctionMode

from astra_chat.tools.runners.module_values import measured
from astra_chat.tools.runners.modules import KEPT_WORDS, BadModule, ModuleFunction, loaded, outputs
from astra_chat.tools.types import DTYPES

aten = torch.ops.aten
WHOLE = (
    *(aten.mm.default, aten.bmm.default, aten.convolution.default, aten.where.self),
    *(aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default),
    *(aten.var_mean.correction, aten.var.correction, aten.clone.default, aten.cat.default),
    *(aten.avg_pool2d.default, aten.expand.default, aten.permute.default, aten.slice.Tensor),
    *(aten.sigmoid.default, aten.silu.default, aten.constant_pad_nd.default),
    *(aten._to_copy.default, aten.select.int, aten.view.default, aten.unsqueeze.default),
    *(aten.max_pool2d_with_indices.default, aten.arange.start_step, aten.cumsum.default),
    *(aten.split.Tensor, aten.unbind.int),
)
"""Operators that stay as they are; others are replaced by what they are made of."""
RELATIONS = (sympy.Eq, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)
SYMBOLIC = ("with symbolic sizes", "expected to contain only concrete integers")
"""What PyTorch says where a function of its own takes no symbols."""
UNKNOWN_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


SIZES = (torch.SymInt, torch.SymFloat, int, float)
"""What a node may give that is no tensor."""


def main() -> None:
    file, kind, answer = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    try:
        made = contract_of(file, kind)
    except BadModule as error:
        made = {"refused": str(error)}
    except Exception as error:  # the file is the user's code: the command words the failure
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if f.filename == str(file)]
        what = str(error).strip().partition("\n")[0]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 0
        made = {"failed": f"{type(error).__name__}: {what}", "line": line or 0}
    answer.write_text(json.dumps(made))


def contract_of(file: Path, kind: str) -> dict[str, Any]:
    """What the class of a file offers, for tools/new/module.py. Raises BadModule, and what the file
    itself raises."""
    module = loaded(file, "astra_module")
    found = getattr(module, kind, None)
    if not (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        raise BadModule(f"it defines no class {kind}(nn.Module)")
    function = ModuleFunction(found)
    _require_kinds(function)
    named, fixed = _sizes_by_name(module), set[int]()
    while True:
        try:
            contract = _contract(_Traced(function, named, fixed), found.__doc__ or "")
            break
        except UNKNOWN_VALUES:
            raise BadModule("its shapes or branches depend on the values of a tensor") from None
        except _NoExpression as error:
            if error.extents <= fixed:
                raise BadModule(str(error)) from None
            fixed |= error.extents
        except RuntimeError as error:
            every = {e for v in function.values.values() for e in getattr(v, "shape", ())}
            if not any(text in str(error) for text in SYMBOLIC) or every <= fixed:
                raise
            fixed |= every
    if not contract["dims"]:
        _name_a_dim(contract)
    return contract | measured(function, contract)


def _name_a_dim(contract: dict[str, Any]) -> None:
    """A task has a dim at least: where forward fixes all sizes, it has one value."""
    for one in contract["inputs"].values():
        if one["shape"]:
            extent = one["shape"][0]
            contract["dims"] = {"rows": int(extent)}
            contract["require"] = [f"rows == {extent}"]
            one["shape"][0] = "rows"
            return
    raise BadModule("its inputs have no size: each is one number")


def _contract(traced: _Traced, text: str) -> dict[str, Any]:
    return {
        "summary": " ".join(text.strip().partition("\n\n")[0].split()),
        "inputs": {n: traced.argument(v) for n, v in traced.inputs.items()},
        "weights": {n: traced.argument(v) for n, v in traced.weights.items() if n in traced.read},
        "outputs": [traced.argument(v) for v in traced.results],
        "dims": traced.dims(),
        "require": traced.require(),
        "nodes": traced.nodes(),
        "tensor_float32": torch.get_float32_matmul_precision() != "highest",
    }


def _require_kinds(function: ModuleFunction) -> None:
    """Raises BadModule for an input that no contract of a module can draw."""
    for name, own in function.inputs.items():
        value = function.values[own]
        if isinstance(value, list | tuple | dict):
            raise BadModule(f"its input {own} is a {type(value).__name__}, not a tensor")
        if isinstance(value, torch.Tensor):
            _require_float(f"its input {name}", value)


def _require_float(what: str, value: torch.Tensor) -> None:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise BadModule(f"{what} is of {dtype}, which no contract supports")
    if not value.is_floating_point():
        raise BadModule(f"{what} is of {dtype}: the file does not say which numbers are valid")
    if value.numel() == 0:
        raise BadModule(f"{what} is empty")


def _sizes_by_name(module: Any) -> dict[int, str]:
    """What the file calls a size, where it has one name for it."""
    named: dict[int, list[str]] = {}
    for name, value in vars(module).items():
        if type(value) is int and name.isidentifier() and not name.startswith("_"):
            named.setdefault(value, []).append(name.lower())
    return {value: names[0] for value, names in named.items() if len(names) == 1}


class _Linear(TorchFunctionMode):
    """Takes a product of rows for `linear`, which asks for the sizes of its input as numbers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is not torch.nn.functional.linear:
            return func(*args, **(kwargs or {}))
        return _linear(*args, **(kwargs or {}))


def _linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    rows = input.reshape(-1, input.shape[-1]) @ weight.t()
    found = rows.reshape(*input.shape[:-1], weight.shape[0])
    return found if bias is None else found + bias


class _NoExpression(Exception):
    """A size that no contract expresses: the dims in it have to be numbers."""

    def __init__(self, expression: sympy.Expr) -> None:
        super().__init__(f"one of its sizes is {expression}, which a contract cannot express")
        self.symbols = expression.free_symbols
        self.extents: set[int] = set()
        """What these sizes are in the file's own inputs."""


class _Traced:
    """Forward as operators, with sizes as symbols."""

    def __init__(self, function: ModuleFunction, named: Mapping[int, str], fixed: Set[int]) -> None:
        """`fixed`: extents of inputs that are no dims. Raises BadModule where forward does what no
        task has."""
        self._function, self._named, self._fixed = function, named, fixed
        self._env = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self.weights = {
            n: self._mode.from_tensor(function.weight(n), static_shapes=True)
            for n in function.weights
        }
        self.own = {
            n: function.values[own]
            for n, own in function.inputs.items()
            if isinstance(function.values[own], torch.Tensor)
        }
        self.inputs = {n: self._symbolic(n, value) for n, value in self.own.items()}
        if not self.own:
            raise BadModule("its forward takes no tensor")
        self._graph = self._trace().graph
        self._places = dict(
            zip(
                (node.name for node in self._graph.nodes if node.op == "placeholder"),
                [*self.weights, *self.inputs],
                strict=True,
            )
        )
        self._require_pure()
        self._graph.eliminate_dead_code()
        self.read = {
            self._places[n.name] for n in self._graph.nodes if n.name in self._places and n.users
        }
        last = next(node for node in self._graph.nodes if node.op == "output")
        self._outputs = list(last.args[0])
        self.results = [node.meta["val"] for node in self._outputs]
        for number, one in enumerate(self.results):
            _require_float(f"its result {number}", one)
        for name in self.read & set(self.weights):
            _require_float(f"its weight {function.weights[name]}", function.weight(name))
        self._names = self._dim_names()

    def _symbolic(self, name: str, value: torch.Tensor) -> torch.Tensor:
        free: Any = StatelessSymbolicContext(dynamic_sizes=[self._kind(e) for e in value.shape])
        return self._mode.from_tensor(
            value.contiguous(), source=ConstantSource(name), symbolic_context=free
        )

    def _kind(self, extent: int) -> DimDynamic:
        return DimDynamic.STATIC if extent in self._fixed else DimDynamic.DUCK

    def _axes(self) -> Iterator[tuple[sympy.Expr, int]]:
        """Each axis of the inputs: its symbol, or number, and its size in the file."""
        for value, own in zip(self.inputs.values(), self.own.values(), strict=True):
            for size, extent in zip(value.shape, own.shape, strict=True):
                yield _expression(size), extent

    def _trace(self) -> fx.GraphModule:
        count, names = len(self.weights), [*self.weights, *self.inputs]

        def flat(*values: torch.Tensor) -> list[torch.Tensor]:
            given = dict(zip(names, values, strict=True))
            weights = {name: given.pop(name) for name in names[:count]}
            return outputs(self._function.called(given, weights))

        table: Any = {op: f for op, f in decomposition_table.items() if op not in WHOLE}
        whole = functionalize(flat, remove="mutations")
        with self._mode, torch.no_grad(), _Linear():
            return make_fx(whole, decomposition_table=table)(
                *self.weights.values(), *self.inputs.values()
            )

    def _require_pure(self) -> None:
        for node in self._graph.nodes:
            target = node.target
            if node.op == "get_attr":
                raise BadModule(
                    "its forward reads a tensor that is not an input, a parameter or a buffer:"
                    " register it with register_buffer"
                )
            if not isinstance(target, torch._ops.OpOverload):
                continue
            if torch.Tag.nondeterministic_seeded in target.tags:
                raise BadModule(f"its forward draws random numbers ({target})")
            changed = [
                node.args[at]
                for at, one in enumerate(target._schema.arguments)
                if one.alias_info is not None and one.alias_info.is_write and at < len(node.args)
            ]
            for one in changed:
                self._refuse_change(self._places.get(getattr(one, "name", ""), ""))

    def _refuse_change(self, name: str) -> None:
        if path := self._function.weights.get(name):
            raise BadModule(
                f"its forward changes {path}, which the next call would see: call self.eval() in"
                " __init__, or return it"
            )
        if name:
            raise BadModule(f"its forward changes its input {name} in place")

    def _dim_names(self) -> dict[sympy.Symbol, str]:
        """Names of the symbols that are left, in the order of the inputs' axes."""
        taken = {*self.inputs, *self.weights, *KEPT_WORDS}
        names: dict[sympy.Symbol, str] = {}
        for symbol, extent in self._axes():
            if symbol.is_Symbol and symbol not in names:
                name = self._named.get(extent, "batch" if not names else f"d{len(names)}")
                while name in taken:
                    name += "_"
                names[symbol] = name
                taken.add(name)
        return names

    def dims(self) -> dict[str, int]:
        """The size of each dim in the file's own inputs."""
        return {self._names[s]: extent for s, extent in self._axes() if s in self._names}

    def argument(self, value: torch.Tensor) -> dict[str, Any]:
        shape = [self._text(size) for size in value.shape]
        return {"dtype": str(value.dtype).removeprefix("torch."), "shape": shape}

    def require(self) -> list[str]:
        """What the trace rests on: relations of dims."""
        found = []
        for guard in self._env.guards:
            expression = self._env.replace(guard.expr)
            if expression.free_symbols and isinstance(expression, RELATIONS):
                left, right = map(self._printed, expression.args)
                if (text := f"{left} {expression.rel_op} {right}") not in found:
                    found.append(text)
        return found

    def nodes(self) -> list[dict[str, Any]]:
        """Operators in their order: arguments are {"node"}, {"size"}, numbers, texts and lists."""
        return [*self._nodes(), {"op": "output", "args": [self._given(n) for n in self._outputs]}]

    def _nodes(self) -> Iterator[dict[str, Any]]:
        for node in self._graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                yield {
                    "name": node.name,
                    "op": "argument",
                    "args": [self._places[node.name]],
                    **self.argument(value),
                }
            elif node.op == "call_function" and not isinstance(value, SIZES):
                whole = node.target is not operator.getitem
                op = str(node.target).removeprefix("aten.") if whole else "getitem"
                shaped = self.argument(value) if isinstance(value, torch.Tensor) else {}
                yield {
                    "name": node.name,
                    "op": op,
                    **shaped,
                    "args": [self._given(one) for one in _all_arguments(node)],
                }

    def _given(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            size = value.meta.get("val")
            if isinstance(size, SIZES):
                return {"size": self._text(size)}
            return {"node": value.name}
        if isinstance(value, list | tuple):
            return [self._given(one) for one in value]
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        return value if isinstance(value, bool | int | float | str | None) else str(value)

    def _text(self, size: Any) -> str:
        return self._printed(_expression(size))

    def _printed(self, expression: sympy.Expr) -> str:
        try:
            return _printed(self._env.replace(expression), self._names)
        except _NoExpression as error:
            error.extents = {e for symbol, e in self._axes() if symbol in error.symbols}
            raise


def _all_arguments(node: fx.Node) -> list[Any]:
    """Positional arguments, with those given by keyword and the schema's defaults in their
    places."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return list(node.args)
    given = list(node.args)
    for one in target._schema.arguments[len(given) :]:
        given.append(
            node.kwargs.get(one.name, one.default_value if one.has_default_value() else None)
        )
    return given


def _expression(size: Any) -> sympy.Expr:
    if isinstance(size, torch.SymInt | torch.SymFloat):
        expression = size.node.expr
        return expression.args[0] if type(expression).__name__ == "ToFloat" else expression
    return sympy.Integer(int(size))


def _printed(expression: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> str:
    """An expression of a contract. Raises _NoExpression where it has no such form."""

    def inner(one: sympy.Expr) -> str:
        text = _printed(one, names)
        return text if text.isidentifier() or text.isdecimal() else f"({text})"

    kind = type(expression).__name__
    if expression.is_Symbol:
        return names[expression]
    if expression.is_Integer:
        return str(int(expression))
    if expression.is_Add:
        terms = sorted(expression.args, key=lambda t: (t.could_extract_minus_sign(), str(t)))
        first, *others = terms
        signs = [
            f" - {inner(-one)}" if one.could_extract_minus_sign() else f" + {inner(one)}"
            for one in others
        ]
        return inner(first) + "".join(signs)
    if expression.is_Mul and all(one.is_integer for one in expression.args):
        return "*".join(map(inner, expression.args))
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        return "*".join([inner(expression.base)] * int(expression.exp))
    if kind in ("FloorDiv", "Mod", "PythonMod"):
        sign = " // " if kind == "FloorDiv" else " % "
        return sign.join(map(inner, expression.args))
    if kind in ("Max", "Min"):
        return f"{kind.lower()}({', '.join(_printed(one, names) for one in expression.args)})"
    raise _NoExpression(expression)


if __name__ == "__main__":
    main()
