"""A plain host function around what is none: a kernel without one, a function that takes structs or
is a template over numbers. It becomes launcher.cu of the task, for the user to complete."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.new.c_launcher import (
    INTEGERS,
    STREAMS,
    contract_name,
    is_number,
    is_pointer,
    value_type,
)
from astra_chat.tools.new.draft import (
    MARK,
)
from astra_chat.tools.new.like_named import element
from astra_chat.tools.new.source import Function, Parameter
from astra_chat.tools.new.structs import Fields, Structs

FILE = "launcher.cu"
_BLANKS = re.compile(r"\s*(__restrict__|__restrict|__grid_constant__)\b")
_AROUND_A_NAME = re.compile(
    r"\[\s*\[.*?\]\s*\]|\b(const|struct|__grid_constant__|__restrict__)\b|[&*]"
)
_USUAL = {"bool": "true"}
"""Values of template parameters, until the user says."""
_MOST_DEEP = 3


@dataclass
class _Around:
    """The function as it is written: parameters, what comes before the call, what is passed."""

    structs: Structs
    types: Sequence[str]
    """Template parameters that are types."""
    parameters: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    stream: str = ""

    def take(self, kind: str, name: str, within: str = "") -> str:
        """A parameter of this type, by its own name or one that says in which struct it is."""
        own = contract_name(name) or "value"
        own = f"{within}_{own}" if own in self.names else own
        self.names.add(own)
        self.parameters.append(f"{_BLANKS.sub('', kind)} {own}")
        return own

    def fill(self, fields: Fields, path: str, within: str, deep: int = 0) -> None:
        """Takes the fields of a struct one by one."""
        for one in fields:
            kind = value_type(one)
            if inner := self.structs.fields.get(_bare(kind)):
                if deep < _MOST_DEEP and "*" not in kind:
                    self.fill(inner, f"{path}.{one.name}", f"{within}_{one.name}", deep + 1)
            elif kind in STREAMS:
                self.stream = self.stream or self.take("cudaStream_t", "stream")
                self.lines.append(f"  {path}.{one.name} = {self.stream};")
            elif is_number(kind) or (is_pointer(one) and self.is_element(element(one.type))):
                given = self.take(one.type, one.name, within)
                self.lines.append(f"  {path}.{one.name} = {given};")
            else:
                self.lines.append(f"  // {MARK}: {path}.{one.name} is a {one.type}: fill it in")

    def is_element(self, kind: str) -> bool:
        return kind not in self.structs.objects


def is_written(function: Function, structs: Structs) -> bool:
    """Whether a plain function can be written around it: among what it takes are a pointer and,
    but of a kernel, a number, which may be a size."""
    if function.is_method or function.name == "main":
        return False
    kinds = [parameter.rsplit(" ", 1)[0] for parameter in _around(function, structs).parameters]
    sized = "__global__" in function.returns or any(map(INTEGERS.fullmatch, kinds))
    return sized and any("*" in kind for kind in kinds)


def written_launcher(function: Function, structs: Structs) -> str:
    """The text of launcher.cu."""
    around = _around(function, structs)
    kernel = "__global__" in function.returns
    kinds = [f"{kind} {name}" for kind, name, _ in function.template if kind in _TYPES]
    if kernel:
        around.stream = around.stream or around.take("cudaStream_t", "stream")
    lines = [
        f"// {function.name} taking pointers and numbers, for [binding] to call.",
        *([f"template <{', '.join(kinds)}>"] if kinds else []),
        *head(f"static void {name_of(function)}", around.parameters, " {"),
    ]
    for kind, name, default in function.template:
        if kind not in _TYPES and not default:
            value = _USUAL.get(kind, "128")
            lines.append(f"  constexpr {kind} {name} = {value};  // {MARK}: the value callers use")
    scope = "".join(f"{name}::" for name in function.namespaces)
    if scope and around.lines:
        lines.append(f"  using namespace ::{scope[:-2]};")
    lines += around.lines
    called = f"{'::' if scope else ''}{scope}{function.name}"
    given = [name for kind, name, default in function.template if kind in _TYPES or not default]
    if given:
        called += f"<{', '.join(given)}>"
    if kernel:
        lines += [
            f"  // {MARK}: grid, block and bytes of dynamic shared memory of a launch.",
            "  const dim3 grid(1), block(256);",
            f"  {called}<<<grid, block, 0, {around.stream}>>>({', '.join(around.passed)});",
        ]
    else:
        lines += head(f"  {called}", around.passed, ";")
    return "\n".join([*lines, "}", ""])


def name_of(function: Function) -> str:
    """What the function that is written around it is called."""
    return f"{function.name}_launcher"


_TYPES = ("typename", "class")


def _around(function: Function, structs: Structs) -> _Around:
    around, kernel = _Around(structs, function.type_parameters), "__global__" in function.returns
    for parameter in function.parameters:
        kind = value_type(parameter)
        if kind in STREAMS:
            around.stream = around.take("cudaStream_t", parameter.name)
            around.passed.append(around.stream)
        elif is_number(kind) or kind in function.type_parameters:
            around.passed.append(around.take(kind, parameter.name))
        elif is_pointer(parameter) and (kernel or around.is_element(element(parameter.type))):
            around.passed.append(around.take(parameter.type, parameter.name))
        else:
            around.passed.append(_object(around, parameter))
    return around


def _object(around: _Around, parameter: Parameter) -> str:
    """A variable for a parameter that is a struct, or of a class that is not known."""
    kind = _bare(parameter.type)
    name = parameter.name or f"unnamed_{len(around.passed)}"
    around.names.add(name)
    if fields := around.structs.fields.get(kind):
        around.lines.append(f"  {kind} {name}{{}};")
        around.fill(fields, name, contract_name(name))
    else:
        around.lines += [
            f"  // {MARK}: {name} is zero-filled; fill in the fields that are read.",
            f"  alignas(16) unsigned char {name}_bytes[sizeof({kind})] = {{}};",
            f"  {kind}& {name} = reinterpret_cast<{kind}&>({name}_bytes);",
        ]
    return f"&{name}" if "*" in parameter.type else name


def _bare(kind: str) -> str:
    """The type of an object without const, references and pointers."""
    return " ".join(_AROUND_A_NAME.sub(" ", kind).split())
