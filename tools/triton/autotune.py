"""@triton.autotune as marked constants: a source with it becomes one without, line by line.

    @triton.autotune(configs=[triton.Config({"BLOCK": 512}, num_warps=4),
                              triton.Config({"BLOCK": 2048}, num_warps=8)], key=["h"])

becomes the constant `scale_kernel_config = tl.constexpr(0)  # tune: 0 1`, and each launch of the
kernel gets `BLOCK=(512 if scale_kernel_config == 0 else 2048)`, with warps and stages likewise. A
grid `lambda META: (cdiv(h, META["BLOCK"]),)` becomes its tuple. What is judged is the first
configuration; tuning tries the others, each for all calls of the contract: `key` is not used.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.triton.expressions import NotAllowed

AUTOTUNE, CONFIG = "triton.autotune", "triton.Config"
MOST_CONFIGS = 64
OPTIONS = ("num_warps", "num_stages")
USUAL: Mapping[str, ast.expr] = {"num_warps": ast.Constant(4), "num_stages": ast.Constant(3)}
FORM = (
    'write @triton.autotune(configs=[triton.Config({"BLOCK": 512}, num_warps=4), ...], key=[...])'
)
Configs = Sequence[Mapping[str, ast.expr]]
"""Values of constants, warps and stages, for each configuration."""


@dataclass(frozen=True)
class TextEdit:
    """Text from a byte of a line to a byte of another is replaced; lines count from 1."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def without_autotune(source: str) -> str:
    """The source with a marked constant for each @triton.autotune, on as many lines.

    Raises NotAllowed for a decorator or a grid that cannot be read, and SyntaxError.
    """
    if "autotune" not in source:
        return source
    tree, lines = ast.parse(source), source.encode().splitlines()
    configs = dict[str, Configs]()
    edits = list[TextEdit]()
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            for node in function.decorator_list:
                if isinstance(node, ast.Call) and ast.unparse(node.func) == AUTOTUNE:
                    configs[function.name] = read = _configs(node)
                    end = ((node.end_lineno or 1), len(lines[(node.end_lineno or 1) - 1]))
                    edits.append(_mark(node, end, function.name, len(read)))
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and not function.decorator_list:
            edits += _launches(function, configs, lines)
    return _edited(source, edits)


def _configs(node: ast.Call) -> Configs:
    """The configurations of a decorator. Raises NotAllowed."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    given |= dict(zip(("configs", "key"), node.args, strict=False))
    others = sorted(str(name) for name in {*given} - {"configs", "key"})
    listed = given.get("configs")
    if others or not isinstance(listed, ast.List) or not 1 <= len(listed.elts) <= MOST_CONFIGS:
        raise NotAllowed(node, f"@{AUTOTUNE}: {', '.join(others) or 'configs'}: {FORM}")
    read = [_config(one) for one in listed.elts]
    if any({*one} != {*read[0]} for one in read):
        raise NotAllowed(node, f"@{AUTOTUNE}: all configurations must set the same names")
    return read


def _config(node: ast.expr) -> Mapping[str, ast.expr]:
    match node:
        case ast.Call(func=func, args=[ast.Dict(keys=keys, values=values)], keywords=keywords) if (
            ast.unparse(func) == CONFIG
        ):
            names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
            pairs = [*zip(names, values, strict=True), *((k.arg, k.value) for k in keywords)]
            options = [keyword.arg for keyword in keywords]
            plain = all(isinstance(v, ast.Constant) and isinstance(v.value, int) for _, v in pairs)
            if plain and {*options} <= {*OPTIONS} and all(isinstance(n, str) for n, _ in pairs):
                return {**USUAL, **{str(name): value for name, value in pairs}}
    raise NotAllowed(node, f"{ast.unparse(node)[:80]}: {FORM}")


def _mark(node: ast.Call, end: tuple[int, int], kernel: str, count: int) -> TextEdit:
    """The decorator's lines, up to `end`, as the constant and empty comments."""
    values = " ".join(map(str, range(count)))
    text = f"{_constant(kernel)} = tl.constexpr(0)  # tune: {values}"
    return TextEdit((node.lineno, 0), end, text + "\n#" * (end[0] - node.lineno))


def _constant(kernel: str) -> str:
    return f"{kernel}_config"


def _launches(
    launcher: ast.FunctionDef, configs: Mapping[str, Configs], lines: Sequence[bytes]
) -> Iterator[TextEdit]:
    """Edits of the launches of tuned kernels, and of their grids. Raises NotAllowed."""
    named = {
        node.targets[0].id: node.value
        for node in ast.walk(launcher)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Lambda)
    }
    done = dict[int, str]()
    for node in ast.walk(launcher):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        kernel = ast.unparse(node.func.value)
        if kernel not in configs:
            continue
        values = _values(kernel, configs[kernel])
        yield _arguments(node, values, lines)
        grid = node.func.slice
        if isinstance(grid, ast.Name):
            grid = named.get(grid.id, grid)
        if isinstance(grid, ast.Lambda):
            if done.setdefault(id(grid), kernel) != kernel:
                raise NotAllowed(node, "two tuned kernels share a grid: give each one of its own")
            yield from _grid(grid, values)


def _values(kernel: str, configs: Configs) -> Mapping[str, str]:
    """Text of each name that the configurations set, by the marked constant."""
    return {name: _chosen(kernel, [one[name] for one in configs]) for name in configs[0]}


def _chosen(kernel: str, values: Sequence[ast.expr]) -> str:
    texts = [ast.unparse(value) for value in values]
    if len({*texts}) == 1:
        return texts[0]
    tests = [f"{text} if {_constant(kernel)} == {i} else " for i, text in enumerate(texts[:-1])]
    return f"({''.join(tests)}{texts[-1]})"


def _arguments(call: ast.Call, values: Mapping[str, str], lines: Sequence[bytes]) -> TextEdit:
    """The values as further arguments, before the parenthesis that closes the launch."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not given:
        raise NotAllowed(call, f"{ast.unparse(call)[:80]}: a launch without arguments")
    line, column = max((one.end_lineno or 0, one.end_col_offset or 0) for one in given)
    last, end = call.end_lineno or 0, (call.end_col_offset or 0) - 1
    behind = [lines[line - 1][column:], *lines[line:last]]
    behind[-1] = lines[last - 1][column if last == line else 0 : end]
    comma = any(b"," in part.partition(b"#")[0] for part in behind)
    words = ", ".join(f"{name}={text}" for name, text in values.items())
    return TextEdit((last, end), (last, end), words if comma else f", {words}")


def _grid(grid: ast.Lambda, values: Mapping[str, str]) -> Iterator[TextEdit]:
    """The lambda's tuple, with the values in the place of what it reads of its parameter."""
    if len(grid.args.args) != 1 or not isinstance(grid.body, ast.Tuple):
        raise NotAllowed(grid, 'write a grid as lambda META: (..., META["BLOCK"], ...)')
    meta = grid.args.args[0].arg
    body = grid.body
    yield TextEdit((grid.lineno, grid.col_offset), (body.lineno, body.col_offset), "")
    for node in ast.walk(body):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if (
                name == meta
            ):
                if key not in values:
                    raise NotAllowed(node, f"{meta}[{json.dumps(key)}]: no configuration sets it")
                end = (node.end_lineno or 0, node.end_col_offset or 0)
                yield TextEdit((node.lineno, node.col_offset), end, values[key])


def _edited(source: str, edits: Sequence[TextEdit]) -> str:
    """The source with these edits, none of which overlap."""
    starts, lines = [0], source.encode().splitlines(keepends=True)
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = b"".join(lines)
    for one in sorted(edits, key=lambda one: one.start, reverse=True):
        first, last = (starts[line - 1] + column for line, column in (one.start, one.end))
        text = text[:first] + one.text.encode() + text[last:]
    return text.decode()
