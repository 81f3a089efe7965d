"""Plain CUDA kernels from a module's operators: one for each result that is kept in memory.

Element-wise operators and views are written into the kernel that uses them; what is read more than
once, and what sums or products read, is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TYPES = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int32": "int",
    "int64": "int64_t",
    "bool": "bool",
}
"""Elements in memory. In registers a float of any width is float."""
DEVICE = "__device__ __forceinline__ float"
BOTH = "__host__ __device__ __forceinline__ int64_t"
HELPERS = {
    "larger": f"""\
// NaN wins, as in PyTorch.
{DEVICE} larger(float a, float b) {{ return a != a || a > b ? a : b; }}
{BOTH} larger(int64_t a, int64_t b) {{ return a > b ? a : b; }}
""",
    "smaller": f"""\
// NaN wins, as in PyTorch.
{DEVICE} smaller(float a, float b) {{ return a != a || a < b ? a : b; }}
{BOTH} smaller(int64_t a, int64_t b) {{ return a < b ? a : b; }}
""",
    "plus": f"{DEVICE} plus(float a, float b) {{ return a + b; }}\n",
    "times": f"{DEVICE} times(float a, float b) {{ return a * b; }}\n",
}
"""Functions of the kernels, by name."""
FORMULAS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}",
    "neg": "-{0}", "abs": "fabsf({0})", "exp": "expf({0})", "exp2": "exp2f({0})",
    "expm1": "expm1f({0})", "log": "logf({0})", "log2": "log2f({0})", "log1p": "log1pf({0})",
    "sqrt": "sqrtf({0})", "rsqrt": "1.0f / sqrtf({0})", "reciprocal": "1.0f / {0}",
    "sin": "sinf({0})", "cos": "cosf({0})", "tan": "tanf({0})", "tanh": "tanhf({0})",
    "sinh": "sinhf({0})", "cosh": "coshf({0})", "atan": "atanf({0})", "erf": "erff({0})",
    "erfc": "erfcf({0})", "floor": "floorf({0})", "ceil": "ceilf({0})", "round": "rintf({0})",
    "trunc": "truncf({0})", "pow": "powf({0}, {1})", "maximum": "larger({0}, {1})",
    "minimum": "smaller({0}, {1})", "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}",
    "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "where": "{0} ? {1} : {2}",
    "sigmoid": "1.0f / (1.0f + expf(-{0}))", "silu": "{0} / (1.0f + expf(-{0}))",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_not": "!{0}",
    "isfinite": "isfinite({0})", "sign": "static_cast<float>(({0} > 0) - ({0} < 0))",
    "convert_element_type": "{0}", "_to_copy": "{0}",
}  # fmt: skip
"""Element-wise operators."""
CONVERSIONS = ("convert_element_type", "_to_copy")
SAME = ("clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "view_of")
FLAT = ("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "collapse_view", "split_dim")
MOVED = ("expand", "broadcast_in_dim", "permute", "transpose", "slice", "select")
VIEWS = (*SAME, *FLAT, *MOVED)
MADE = ("full", "scalar_tensor", "iota", "arange")
INLINE = (*FORMULAS, *VIEWS, *MADE, "cat", "constant_pad_nd")
FOLDED = {
    "sum": ("0.0f", "plus"),
    "mean": ("0.0f", "plus"),
    "prod": ("1.0f", "times"),
    "amax": ("-INFINITY", "larger"),
    "amin": ("INFINITY", "smaller"),
    "var": ("0.0f", "plus"),
}
"""Reductions: the number they begin with, and what joins two."""
THREADED = ("mm", "bmm", "convolution", "avg_pool2d", "max_pool2d_with_indices", "cumsum")
"""Operators of which each result is a loop in a thread."""
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_not")


class NoPlainKernel(Exception):
    """An operator has no plain kernel here; the text names it."""


@dataclass(frozen=True)
class Node:
    """An operator, or an argument of the contract."""

    name: str
    op: str
    args: Sequence[Any]
    dtype: str
    shape: tuple[str, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in ("float32", "float16", "bfloat16")

    @property
    def register(self) -> str:
        return "float" if self.is_float else TYPES[self.dtype]

    @property
    def count(self) -> str:
        """How many elements it has, as an expression of a contract."""
        return product(self.shape)

    @property
    def inputs(self) -> Iterator[str]:
        return named_in(self.args)


def named_in(value: Any) -> Iterator[str]:
    """Names of the nodes in an argument."""
    if isinstance(value, dict) and "node" in value:
        yield value["node"]
    elif isinstance(value, list):
        for one in value:
            yield from named_in(one)


def product(extents: Sequence[str]) -> str:
    """Their product as an expression of a contract."""
    number, others = 1, []
    plain = re.compile(r"\w+(\*\w+)*")
    for extent in extents:
        factors = extent.split("*") if plain.fullmatch(extent) else [f"({extent})"]
        for factor in factors:
            if factor.isdecimal():
                number *= int(factor)
            else:
                others.append(factor)
    return "*".join([*others, *([str(number)] if number != 1 or not others else [])])


def c_text(expression: str) -> str:
    """An expression of a contract in C++."""
    return expression.replace("//", "/").replace("max(", "larger(").replace("min(", "smaller(")


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


@dataclass
class Body:
    """Lines of a kernel, and the values that they have computed."""

    nodes: Mapping[str, Node]
    memory: Mapping[str, str]
    """What is kept: the kernel's parameter, by the node's name."""
    used: dict[str, None]
    """Nodes that the kernel reads from memory."""
    numbers: Iterator[int]
    indent: str = "  "
    lines: list[str] = field(default_factory=list)
    known: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    """Values by node and places."""
    numbered: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = field(default_factory=dict)
    """Numbers of elements, by places and shape."""

    def inner(self) -> Body:
        """Lines of a block in it."""
        return Body(
            self.nodes,
            self.memory,
            self.used,
            self.numbers,
            self.indent + "  ",
            [],
            dict(self.known),
            dict(self.numbered),
        )

    def add(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def let(self, kind: str, expression: str) -> str:
        """A constant with this value."""
        if expression.isidentifier() or expression.isdecimal():
            return expression
        name = f"{'At' if kind == 'int64_t' else 'V'}{next(self.numbers)}"
        self.add(f"const {kind} {name} = {expression};")
        return name

    def block(self, head: str, inner: Body) -> None:
        self.lines += [f"{self.indent}{head} {{", *inner.lines, f"{self.indent}}}"]

    def split(self, at: str, shape: Sequence[str]) -> list[str]:
        """The place in each axis of the element number `at`."""
        places: list[str] = []
        number = at
        for axis in reversed(range(len(shape))):
            if shape[axis] == "1":
                places.append("0")
            elif not any(extent != "1" for extent in shape[:axis]):
                places.append(at)
            else:
                extent = f"({c_text(shape[axis])})"
                places.append(self.let("int64_t", f"{at} % {extent}"))
                at = self.let("int64_t", f"{at} / {extent}")
        places.reverse()
        self.numbered[tuple(places), tuple(shape)] = number
        return places

    def flat(self, places: Sequence[str], shape: Sequence[str]) -> str:
        """The number of the element at these places."""
        key = tuple(places), tuple(shape)
        if key not in self.numbered:
            text = "0"
            for place, extent in zip(places, shape, strict=True):
                if extent != "1":
                    text = place if text == "0" else f"({text}) * ({c_text(extent)}) + {place}"
            self.numbered[key] = self.let("int64_t", text)
        return self.numbered[key]

    def value(self, name: str, places: Sequence[str]) -> str:
        """A variable with a node's element at these places, of the node's register type."""
        key = name, tuple(places)
        if key not in self.known:
            node = self.nodes[name]
            if name in self.memory:
                self.used[name] = None
                loaded = f"{self.memory[name]}[{self.flat(places, node.shape)}]"
                if node.register != TYPES[node.dtype]:
                    loaded = f"static_cast<float>({loaded})"
                self.known[key] = self.let(node.register, loaded)
            else:
                self.known[key] = self.computed(node, places)
        return self.known[key]

    def computed(self, node: Node, places: Sequence[str]) -> str:
        """A variable with an element of an element-wise operator or a view."""
        if node.op in VIEWS:
            source = self.nodes[node.args[0]["node"]]
            return self.value(source.name, self._viewed(node, source, places))
        if node.op == "cat":
            return self._joined(node, places)
        if node.op == "constant_pad_nd":
            return self._padded(node, places)
        if node.op in ("iota", "arange"):
            first, second, third = node.args[:3]
            start, step = (second, third) if node.op == "iota" else (first, third)
            text = f"{size(start)} + {places[0]} * {size(step)}"
            return self.let(node.register, f"static_cast<{node.register}>({text})")
        if node.op in MADE:
            return self.let(
                node.register, literal(node.args[node.op != "scalar_tensor"], node.is_float)
            )
        return self._formula(node, places)

    def _formula(self, node: Node, places: Sequence[str]) -> str:
        sources = [self.nodes[n] for n in node.inputs]
        floats = node.is_float or any(one.is_float for one in sources)
        if node.op in BITWISE and node.dtype != "bool":
            raise NoPlainKernel(f"{node.op} of {node.dtype}")
        given = []
        operands = next(n for n in (3, 2, 1) if f"{{{n - 1}}}" in FORMULAS[node.op])
        for one in node.args[:operands]:
            if isinstance(one, dict) and "node" in one:
                source = self.nodes[one["node"]]
                given.append(self.value(source.name, self._aligned(source, node, places)))
            elif isinstance(one, bool | int | float | dict):
                given.append(literal(one, floats))
        text = FORMULAS[node.op].format(*given)
        if node.op in CONVERSIONS or not (node.is_float or node.dtype == "bool"):
            text = f"static_cast<{node.register}>({text})"
        return self.let(node.register, text)

    @staticmethod
    def _aligned(source: Node, node: Node, places: Sequence[str]) -> list[str]:
        """Places in an operand, which may have fewer axes or an extent of one."""
        rank = len(source.shape)
        own = zip(source.shape, list(node.shape)[-rank:], list(places)[-rank:], strict=True)
        return [p if e == o else "0" for e, o, p in own] if rank else []

    def _viewed(self, node: Node, source: Node, places: Sequence[str]) -> list[str]:
        """Places in what a view is of."""
        if node.op in SAME:
            return list(places)
        if node.op in FLAT:
            if [e for e in node.shape if e != "1"] == [e for e in source.shape if e != "1"]:
                left = iter(p for p, e in zip(places, node.shape, strict=True) if e != "1")
                return ["0" if extent == "1" else next(left) for extent in source.shape]
            return self.split(self.flat(places, node.shape), source.shape)
        if node.op == "expand":
            return self._aligned(source, node, places)
        if node.op == "broadcast_in_dim":
            axes = node.args[2]
            return [
                "0" if extent == "1" else places[axis]
                for extent, axis in zip(source.shape, axes, strict=True)
            ]
        rank = len(source.shape)
        if node.op in ("permute", "transpose"):
            order = [axis_of(axis, rank) for axis in node.args[1]]
            return [places[order.index(axis)] for axis in range(rank)]
        return self._cut(node, source, list(places))

    def _cut(self, node: Node, source: Node, places: list[str]) -> list[str]:
        axis = axis_of(node.args[1], len(source.shape))
        extent = c_text(source.shape[axis])
        start = size(node.args[2] or 0)
        if start.startswith("-"):
            start = f"({extent}) - {start[1:]}"
        if node.op == "select":
            return [*places[:axis], self.let("int64_t", start), *places[axis:]]
        step = size(node.args[4])
        places[axis] = self.let("int64_t", f"{start} + {places[axis]} * {step}")
        return places

    def _joined(self, node: Node, places: Sequence[str]) -> str:
        """The element of a concatenation."""
        rank = len(node.shape)
        axis = axis_of(node.args[1] if len(node.args) > 1 else 0, rank)
        name, start = f"V{next(self.numbers)}", "0"
        self.add(f"{node.register} {name} = 0;")
        for part in node.args[0]:
            source, inner = self.nodes[part["node"]], self.inner()
            end = f"{start} + ({c_text(source.shape[axis])})"
            at = [*places]
            at[axis] = inner.let("int64_t", f"{places[axis]} - ({start})")
            inner.add(f"{name} = {inner.value(source.name, at)};")
            inside = f"{places[axis]} >= {start} && {places[axis]} < {end}"
            self.block(f"if ({inside})", inner)
            start = end
        return name

    def _padded(self, node: Node, places: Sequence[str]) -> str:
        source, pads = self.nodes[node.args[0]["node"]], node.args[1]
        name = f"V{next(self.numbers)}"
        self.add(f"{node.register} {name} = {literal(node.args[2], node.is_float)};")
        at, inside = [*places], ["true"]
        for number in range(len(pads) // 2):
            axis = len(places) - 1 - number
            at[axis] = self.let("int64_t", f"{places[axis]} - ({size(pads[2 * number])})")
            inside.append(f"{at[axis]} >= 0 && {at[axis]} < {c_text(source.shape[axis])}")
        inner = self.inner()
        inner.add(f"{name} = {inner.value(source.name, at)};")
        self.block(f"if ({' && '.join(inside)})", inner)
        return name


def size(value: Any) -> str:
    """An integer argument in C++."""
    return c_text(value["size"]) if isinstance(value, dict) else str(int(value))


def literal(value: Any, as_float: bool) -> str:
    """A number in C++."""
    if isinstance(value, dict):
        return f"static_cast<float>({size(value)})" if as_float else f"({size(value)})"
    if isinstance(value, bool) and not as_float:
        return "true" if value else "false"
    if not as_float:
        return f"int64_t({int(value)})"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(float(value))
    return f"{text}f" if value >= 0 else f"({text}f)"


Loop = Callable[[Body, Node, Sequence[str]], str]


def threaded(body: Body, node: Node, places: Sequence[str]) -> str:
    """A loop in a thread; the variable with the result."""
    loops: dict[str, Loop] = {
        "mm": _product,
        "bmm": _product,
        "convolution": _convolution,
        "avg_pool2d": _pool,
        "max_pool2d_with_indices": _pool,
        "cumsum": _cumsum,
    }
    return loops[node.op](body, node, places)


def _source(body: Body, node: Node, at: int = 0) -> Node:
    return body.nodes[node.args[at]["node"]]


def _loop(body: Body, name: str, extent: str, inner: Body) -> None:
    body.block(f"for (int64_t {name} = 0; {name} < {c_text(extent)}; ++{name})", inner)


def _product(body: Body, node: Node, places: Sequence[str]) -> str:
    left, right = _source(body, node), _source(body, node, 1)
    *batch, row, column = places
    body.add("float Sum = 0.0f;")
    inner = body.inner()
    a = inner.value(left.name, [*batch, row, "K"])
    b = inner.value(right.name, [*batch, "K", column])
    inner.add(f"Sum = fmaf({a}, {b}, Sum);")
    _loop(body, "K", left.shape[-1], inner)
    return "Sum"


def _cumsum(body: Body, node: Node, places: Sequence[str]) -> str:
    source = _source(body, node)
    axis = axis_of(node.args[1], len(places))
    body.add("float Sum = 0.0f;")
    inner = body.inner()
    at = [*places[:axis], "K", *places[axis + 1 :]]
    inner.add(f"Sum += {inner.value(source.name, at)};")
    _loop(body, "K", f"{places[axis]} + 1", inner)
    return "Sum"


def _each(value: Sequence[Any], rank: int) -> list[str]:
    given = [size(one) for one in value]
    return given * rank if len(given) == 1 else given


def _convolution(body: Body, node: Node, places: Sequence[str]) -> str:
    x, weight = _source(body, node), _source(body, node, 1)
    stride, padding, dilation, transposed, _, groups = node.args[3:9]
    rank = len(places) - 2
    steps, pads, apart = (_each(v, rank) for v in (stride, padding, dilation))
    body.add("float Sum = 0.0f;")
    per_group = weight.shape[0 if transposed else 1]
    count = f"({c_text(per_group)})" + (f" / {groups}" if transposed else "")
    of_group = f"(({c_text(node.shape[1])}) / {groups})"
    group = body.let("int64_t", f"{places[1]} / {of_group}")
    inner = body.inner()
    channel = inner.let("int64_t", f"{group} * ({count}) + C")
    taps = [f"K{axis}" for axis in range(rank)]
    levels = [inner]
    for _ in taps:
        levels.append(levels[-1].inner())
    last, at = levels[-1], []
    for axis in range(rank):
        o, k, extent = places[2 + axis], taps[axis], c_text(x.shape[2 + axis])
        if transposed:
            far = last.let("int64_t", f"{o} + {pads[axis]} - {k} * {apart[axis]}")
            last.add(f"if ({far} < 0 || {far} % {steps[axis]} != 0) continue;")
            place = last.let("int64_t", f"{far} / {steps[axis]}")
        else:
            where = f"{o} * {steps[axis]} - {pads[axis]} + {k} * {apart[axis]}"
            place = last.let("int64_t", where)
        last.add(f"if ({place} < 0 || {place} >= {extent}) continue;")
        at.append(place)
    own = last.let("int64_t", f"{places[1]} % {of_group}")
    rows = [channel, own] if transposed else [places[1], "C"]
    a = last.value(x.name, [places[0], channel, *at])
    b = last.value(weight.name, [*rows, *taps])
    last.add(f"Sum = fmaf({a}, {b}, Sum);")
    for axis in reversed(range(rank)):
        _loop(levels[axis], taps[axis], weight.shape[2 + axis], levels[axis + 1])
    _loop(body, "C", count, inner)
    if node.args[2] is not None:
        body.add(f"Sum += {body.value(_source(body, node, 2).name, [places[1]])};")
    return "Sum"


def _pool(body: Body, node: Node, places: Sequence[str]) -> str:
    """Average or maximum of windows."""
    x, average = _source(body, node), node.op == "avg_pool2d"
    kernel = _each(node.args[1], 2)
    steps = _each(node.args[2] or node.args[1], 2)
    pads = _each(node.args[3] or [0], 2)
    apart = ["1", "1"] if average else _each(node.args[4], 2)
    if average and (pads != ["0", "0"] or node.args[4] or node.args[6] is not None):
        raise NoPlainKernel("avg_pool2d with padding")
    body.add(f"float Sum = {'0.0f' if average else '-INFINITY'};")
    *outer, row, column = places
    first, inner = body.inner(), body.inner().inner()
    at = []
    for number, place in enumerate((row, column)):
        where = f"{place} * {steps[number]} - {pads[number]} + K{number} * {apart[number]}"
        at.append(inner.let("int64_t", where))
        extent = c_text(x.shape[len(outer) + number])
        inner.add(f"if ({at[-1]} < 0 || {at[-1]} >= {extent}) continue;")
    value = inner.value(x.name, [*outer, *at])
    inner.add(f"Sum += {value};" if average else f"Sum = larger(Sum, {value});")
    _loop(first, "K1", kernel[1], inner)
    _loop(body, "K0", kernel[0], first)
    return f"Sum / ({kernel[0]} * {kernel[1]})" if average else "Sum"


def folded(body: Body, node: Node, places: Sequence[str]) -> str:
    """A reduction by the 32 lanes of a warp; the variable with the result."""
    source = _source(body, node)
    rank = len(source.shape)
    axes = node.args[1] if len(node.args) > 1 else None
    taken = sorted(axis_of(axis, rank) for axis in (axes or range(rank)))
    kept = [axis for axis in range(rank) if axis not in taken]
    at = ["0"] * rank
    own = list(places) if len(places) == rank else _spread(places, kept, rank)
    for axis in kept:
        at[axis] = own[axis]
    extents = [source.shape[axis] for axis in taken]
    count = c_text(product(extents))
    begin, join = FOLDED[node.op]
    if node.op == "var":
        mean = _pass(body, source, at, taken, "Total", "0.0f", "plus", "")
        mean = body.let("float", f"{mean} / static_cast<float>({count})")
        found = _pass(body, source, at, taken, "Sum", begin, join, mean)
        less = literal(node.args[2] or 0, as_float=True)
        return f"{found} / (static_cast<float>({count}) - {less})"
    found = _pass(body, source, at, taken, "Sum", begin, join, "")
    return f"{found} / static_cast<float>({count})" if node.op == "mean" else found


def _spread(places: Sequence[str], kept: Sequence[int], rank: int) -> list[str]:
    own = ["0"] * rank
    for place, axis in zip(places, kept, strict=True):
        own[axis] = place
    return own


def _pass(
    body: Body,
    source: Node,
    at: Sequence[str],
    taken: Sequence[int],
    name: str,
    begin: str,
    join: str,
    mean: str,
) -> str:
    """One pass over what is reduced: numbers, or squares of their distance from the mean."""
    count = c_text(product([source.shape[axis] for axis in taken]))
    body.add(f"float {name} = {begin};")
    inner = body.inner()
    places = list(at)
    own = inner.split("R", [source.shape[axis] for axis in taken])
    for axis, place in zip(taken, own, strict=True):
        places[axis] = place
    value = inner.value(source.name, places)
    if mean:
        value = inner.let("float", f"({value} - {mean}) * ({value} - {mean})")
    inner.add(f"{name} = {join}({name}, {value});")
    body.block(f"for (int64_t R = threadIdx.x % 32; R < {count}; R += 32)", inner)
    body.add("for (int Lane = 16; Lane > 0; Lane /= 2) {")
    body.add(f"  {name} = {join}({name}, __shfl_xor_sync(0xffffffffu, {name}, Lane));")
    body.add("}")
    return name
