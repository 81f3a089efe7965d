"""The launcher that a [binding] stands for: it builds tensors and calls the user's function."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from astra_chat.tools.build.cpp_expressions import cpp
from astra_chat.tools.cpp_tokens import tokens
from astra_chat.tools.task.binding import Binding, GivenValue, Passed
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import dtype_parameter, prototype
from astra_chat.tools.types import C_TYPES, DTYPE_CODES, DTypeName

FILE = "launcher.cu"
"""What a compiler calls the launcher's lines, so that they are nobody's."""
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z]\w*)", re.MULTILINE | re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def needs_launcher(task: Task, source: str) -> bool:
    """Whether the launcher is to be made: a file that names it defines it."""
    return task.binding is not None and all(t.text != task.entry for t in tokens(source))


def launcher_text(task: Task, source: str) -> str:
    """The launcher of a task with a [binding], as C++ that follows the user's file, the source."""
    binding = task.binding
    if binding is None:
        return ""
    lines = ["", f'#line 1 "{FILE}"']
    if binding.launcher:
        lines = ["", f'#line 1 "{binding.launcher}"', task.launcher_file, *lines[1:]]
    lines += [
        *_included(_macros(task, source), binding),
        f"{prototype(task)} {{",
        "  return ::astra::launch(stream, [&](::astra::Call& astra_call) {",
    ]
    for arg in task.args:
        lines.append(f"    const auto astra_{arg.name} = {_tensor(arg)};")
        if arg.access == "workspace":
            lines.append(f"    astra_call.workspaces.push_back(::astra::memory(astra_{arg.name}));")
    for name in binding.returns:
        passed = "true" if name in binding.args else "false"
        lines.append(f"    astra_call.results.push_back(::astra::memory(astra_{name}, {passed}));")
    values = ", ".join(_value(task, passed) for passed in binding.args)
    results = ", ".join(f"astra_{name}" for name in binding.returns)
    lines += [
        f"    const ::astra::Values astra_values{{{values}}};",
        *_calls(task, binding, f"{{{results}}}"),
        "  });",
        "}",
        "",
    ]
    return "\n".join(lines)


def _macros(task: Task, source: str) -> set[str]:
    """What the text before the launcher may define."""
    own = {
        name.text
        for word, name in pairwise(tokens(source))
        if (word.kind, word.text) == ("directive", "define")
    }
    others = (*task.header_texts().values(), task.launcher_file)
    own |= {name for text in others for name in _DEFINED.findall(text)}
    return {name for name in own if not name.startswith("_")}


def _included(macros: Iterable[str], binding: Binding) -> Iterator[str]:
    """The headers of the launcher, which these macros do not change: such as min, N or Tensor. The
    names that the binding gives may be some of them."""
    spelt = " ".join((binding.function or "", *binding.elements.values(), binding.signature or ""))
    meant = sorted(set(_NAME.findall(spelt)).intersection(macros))
    yield from (f'#pragma push_macro("{name}")' for name in meant)
    yield from (f"#undef {name}" for name in sorted(macros))
    yield "#include <astra/launcher.h>"
    yield from (f'#pragma pop_macro("{name}")' for name in meant)


def launcher_within(task: Task, source: str, space: str, table: str) -> str:
    """The launcher for a file whose text lies in a namespace and registers its operators in a table
    of its own; its lines are counted with those of the file."""
    lines = launcher_text(task, source).split("\n")
    text = "\n".join("" if line.startswith("#line ") else line for line in lines)
    text = text.replace("&::", f"&::{space}::")
    if task.binding is None or not task.binding.operator:
        return text
    ends = [f"__{end}_{table}" for end in ("start", "stop")]
    attributes = '__attribute__((weak, visibility("hidden")))'
    declared = (f'extern "C" {attributes} const ::astra::Registration {e}[];' for e in ends)
    return "\n".join(
        ["", *declared, text.replace('", astra_values)', f'", astra_values, {", ".join(ends)})')]
    )


def _calls(task: Task, binding: Binding, results: str) -> Iterator[str]:
    """The call; of a template that has type variables one for each of their combinations."""
    if not (chosen := binding.template_variables):
        yield f"    ::astra::require_returned({_call(binding)}, {results});"
        return
    first = task.variables[0]
    every = [{first: one.dtype, **one.types} for one in task.combinations]
    for types in dict.fromkeys(tuple(one[v] for v in chosen) for one in every):
        pairs = list(zip(chosen, types, strict=True))
        test = " && ".join(f"{dtype_parameter(v)} == {DTYPE_CODES[d]}" for v, d in pairs)
        call = _call(binding, pairs)
        yield f"    if ({test}) return ::astra::require_returned({call}, {results});"
    yield '    ::astra::fail("", "no type in the file matches this dtype");'


def _call(binding: Binding, types: Sequence[tuple[str, DTypeName]] = ()) -> str:
    if binding.operator:
        return f'::astra::operators("{binding.operator}", astra_values)'
    name, opened, arguments = (binding.function or "").partition("<")
    for variable, dtype in types:
        element = binding.elements.get(dtype, C_TYPES[dtype])
        arguments = re.sub(rf"\b{variable}\b", element, arguments)
    function = f"&::{name}{opened}{arguments}"
    if binding.signature:
        result, _, parameters = binding.signature.partition("(")
        function = f"static_cast<{result.strip()} (*)({parameters}>({function})"
    return f"::astra::invoke({function}, astra_values)"


def _tensor(arg: Arg) -> str:
    sizes = ", ".join(_sum(extent) for extent in arg.shape)
    code = DTYPE_CODES.get(arg.dtype)
    kind = dtype_parameter(arg.dtype) if code is None else str(code)
    given = f'"{arg.name}", {arg.name}, {kind}'
    if not arg.strides:
        return f"::astra::tensor({given}, {{{sizes}}})"
    free = dict(zip(arg.free_axes, arg.stride_names, strict=True))
    strides = (free.get(axis) or _sum(text) for axis, text in enumerate(arg.strides))
    return f"::astra::tensor({given}, {{{sizes}}}, {{{', '.join(strides)}}})"


def _value(task: Task, passed: Passed) -> str:
    """An element of the list of values."""
    if isinstance(passed, GivenValue):
        return _made(passed)
    if isinstance(passed, bool):
        return f"::astra::Value({'true' if passed else 'false'})"
    if isinstance(passed, int):
        return f"::astra::Value(int64_t({passed}))"
    if isinstance(passed, float):
        return f"::astra::Value({passed!r})"
    if any(arg.name == passed for arg in task.args):
        return f"::astra::Value(astra_{passed})"
    scalar = next((s for s in task.scalars if s.name == passed), None)
    kind = {"float": "double", "bool": "bool"}.get(scalar.type if scalar else "", "int64_t")
    return f"::astra::Value(static_cast<{kind}>({passed}))"


def _made(passed: GivenValue) -> str:
    if passed.text is not None:
        return f"::astra::Value({json.dumps(passed.text)})"
    if passed.dtype is not None:
        code = DTYPE_CODES.get(passed.dtype)
        kind = dtype_parameter(passed.dtype) if code is None else str(code)
        return f"::astra::Value(::astra::type_of_code({kind}))"
    if passed.list is not None:
        numbers = ", ".join(map(str, passed.list))
        return f"::astra::Value(std::vector<int64_t>{{{numbers}}})"
    if passed.tensors is not None:
        return _tensors(passed.tensors)
    if passed.size is not None:
        return f"::astra::Value({_sum(passed.size)})"
    if passed.code is not None:
        return f"::astra::Value(int64_t({dtype_parameter(passed.code)}))"
    return "::astra::Value()"


def _tensors(names: Iterable[str | Iterable[str]]) -> str:
    """A list of tensors, or of lists of them."""
    every = (
        f"::astra::Value(astra_{one})" if isinstance(one, str) else _tensors(one) for one in names
    )
    return f"::astra::Value(std::vector<::astra::Value>{{{', '.join(every)}}})"


def _sum(text: str) -> str:
    """An expression of the contract as C++ of type int64_t."""
    return cpp(text, lambda name: f"int64_t({name})")
