"""hooks.py of a package: each place of the engine as a function that tries the winners that may
serve the call, and calls the original otherwise."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from astra_chat.package.engine_file import EngineHook, forwarded, parameters_of
from astra_chat.tools.build.tvm_ffi_binding import parameter_names
from astra_chat.tools.task.folder import Task

Hooks = Mapping[str, Sequence[EngineHook]]
"""Hooks by the name of their operator."""
HEAD = '''\
"""Written by `astra-chat package` from the engine.toml of each task. The engine calls these
instead of its own functions, with the original as the first argument. A function that torch.compile
traces calls the original."""

import torch

from astra_winners.operators import OPERATORS
'''


def hooks_source(hooks: Hooks, tasks: Mapping[str, Task]) -> str:
    """The file's text. Operators that share a place share a function."""
    places: dict[tuple[str, ...], list[tuple[str, EngineHook]]] = {}
    for name, own in hooks.items():
        for hook in own:
            place = (hook.engine, hook.target, hook.versions, hook.signature)
            places.setdefault(place, []).append((name, hook))
    parts = [HEAD]
    rows: list[str] = []
    for number, some in enumerate(places.values()):
        function = f"hook_{number}"
        parts.append("\n".join(_function(function, some, tasks)))
        rows += _row(function, some)
    table = "\n".join(["HOOKS = [", *rows, "]"])
    return "\n\n".join([*parts, table]) + "\n"


def _function(
    name: str, some: Sequence[tuple[str, EngineHook]], tasks: Mapping[str, Task]
) -> Iterator[str]:
    first = some[0][1]
    original = f"original({forwarded(first.signature)})"
    yield f"def {name}(original, {first.signature}):"
    yield f'    """{first.target}. Without the hook: {_harmless(first.replaces)}."""'
    yield "    if torch.compiler.is_compiling():"
    yield f"        return {original}"
    for operator, hook in some:
        yield f"    operator = OPERATORS[{operator!r}]"
        yield f"    if operator.wanted and ({_one_line(hook.when)}) and operator.ready():"
        keyword = "if"
        for gate in hook.gates:
            yield f"        {keyword} not ({_one_line(gate.holds)}):"
            yield f"            operator.falls_back({gate.otherwise!r})"
            keyword = "elif"
        inner = "            " if hook.gates else "        "
        if hook.gates:
            yield "        else:"
        yield f"{inner}try:"
        yield from (f"{inner}    {line}" for line in _launch(hook, tasks[operator]))
        yield f"{inner}except RuntimeError as error:  # such as an impossible view"
        yield f"{inner}    operator.falls_back(str(error).partition('\\n')[0])"
    yield f"    return {original}"
    yield ""


def _launch(hook: EngineHook, task: Task) -> Iterator[str]:
    yield from (f"{key} = {_one_line(value)}" for key, value in hook.let.items())
    yield "if operator.launch("
    for parameter in parameter_names(task):
        yield f"    {_one_line(hook.arguments[parameter])},"
    yield "):"
    yield f"    return {_one_line(hook.returns)}"


def _row(name: str, some: Sequence[tuple[str, EngineHook]]) -> Iterator[str]:
    """The hook as plugin.py reads it."""
    first = some[0][1]
    yield "    {"
    yield f'        "engine": {first.engine!r},'
    yield f'        "target": {first.target!r},'
    yield f'        "versions": {first.versions!r},'
    yield f'        "parameters": {tuple(parameters_of(first.signature))!r},'
    yield f'        "operators": {tuple(operator for operator, _ in some)!r},'
    yield f'        "function": {name},'
    yield "    },"


def _one_line(expression: str) -> str:
    """An expression without comments and line ends."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def _harmless(text: str) -> str:
    """Text of a task file ends no string of ours."""
    return textwrap.shorten(text.replace("\\", "\\\\").replace('"', "'"), 400)
