"""What a torch C++ extension or a tvm-ffi file exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.new.source import Function, Piece, closing, functions, split

TVM_EXPORT = "TVM_FFI_DLL_EXPORT_TYPED_FUNC"
TVM_BLOCK = "TVM_FFI_STATIC_INIT_BLOCK"
OTHER_KEYS = frozenset(
    "Meta CPU HIP XPU MPS Autograd AutogradCUDA AutogradCPU CompositeExplicitAutograd".split()
)
"""Dispatch keys of TORCH_LIBRARY_IMPL whose functions are not the ones for CUDA tensors."""
TENSOR = re.compile(r"\b(Tensor|TensorView)\b")
_OWN_TENSOR = re.compile(r"^\s*(class|struct)\s+Tensor\b[^;()]*\{", re.MULTILINE)


@dataclass(frozen=True)
class Export:
    """A function under the name that Python calls."""

    name: str
    function: Function
    schema: str
    """Torch's schema, such as "f(Tensor x, Tensor! out) -> ()"; "" where none is given."""
    kind: str
    """torch, tvm-ffi, or plain: a host function that nothing registers."""
    spelt: str = ""
    """The name with scope and template arguments; "" for one that the file exports."""


def is_module(function: Function) -> bool:
    """Whether it is a macro whose block registers functions, TORCH_LIBRARY or a project's own over
    it: it returns nothing, not even void."""
    return not function.returns


def exports(pieces: Sequence[Piece], defined: Sequence[Function]) -> list[Export]:
    """Exported functions whose bodies stand in the file; `pieces` is code without directives,
    `defined` the functions in it."""
    by_name = {f.name: f for f in defined if not f.on_device}
    named: dict[str, tuple[str, str]] = {}
    schemas: dict[str, str] = {}
    for registrations in _registrations(pieces, defined):
        name, schema, target = registrations
        if schema:
            schemas[name] = schema
        if target:
            named[name] = (target, "torch")
    for name, target in _tvm(pieces):
        named[name] = (target, "tvm-ffi")
    return [
        Export(name, by_name[target], schemas.get(name, ""), kind)
        for name, (target, kind) in named.items()
        if target in by_name
    ]


def same_export(export: Export, pieces: Sequence[Piece]) -> Export:
    """The export as `pieces`, a changed text of the file, have it."""
    if export.spelt:
        own = export.function
        same = (
            f
            for f in functions(pieces, classes=True)
            if (f.name, f.namespaces, f.line) == (own.name, own.namespaces, own.line)
        )
        return replace(export, function=next(same))
    defined = functions(pieces)
    offered = [*exports(pieces, defined), *host_functions(pieces, defined)]
    return next(one for one in offered if one.name == export.name)


def has_own_tensors(texts: Iterable[str]) -> bool:
    """Whether a project defines a class Tensor, whose objects nothing but its library makes."""
    return any(_OWN_TENSOR.search(text) for text in texts)


def host_functions(pieces: Sequence[Piece], defined: Sequence[Function]) -> list[Export]:
    """Host functions with tensors among their parameters that no other one calls."""
    host = [
        f
        for f in defined
        if not f.on_device
        and not f.is_method
        and not f.template
        and not is_module(f)
        and any(TENSOR.search(p.type) for p in f.parameters)
    ]
    bodies = {f.name: {p.text for p in pieces[f.body : f.close]} for f in host}
    outer = [
        f
        for f in host
        if not any(f.name in words for name, words in bodies.items() if name != f.name)
    ]
    longest = {f.name: f for f in sorted(outer, key=lambda f: f.close - f.body)}
    return [Export(name, f, "", "plain") for name, f in longest.items()]


def _registrations(
    pieces: Sequence[Piece], defined: Sequence[Function]
) -> Iterator[tuple[str, str, str]]:
    """Name, schema and C++ function of each m.def and m.impl."""
    for module in defined:
        keys = {word for p in module.parameters for word in (p.type, p.name)}
        if is_module(module) and module.name != TVM_BLOCK and not keys & OTHER_KEYS:
            for index in range(module.body, module.close):
                if pieces[index].text in ("def", "impl") and pieces[index + 1].text == "(":
                    inner = pieces[index + 2 : closing(pieces, index + 1)]
                    parts = list(split(inner))
                    first = "".join(p.text.strip('"') for p in parts[0] if p.token.kind == "string")
                    schema = first if "(" in first else ""
                    name = re.split(r"[(.]", first.rsplit("::", 1)[-1])[0]
                    yield name, schema, _target(parts[1:])


def _target(parts: Sequence[Sequence[Piece]]) -> str:
    """f of &f, ns::f or TORCH_FN(f); "" where none of them is a function."""
    for part in parts:
        names = [p.text for p in part if p.token.kind == "name"]
        texts = [p.text for p in part]
        if names and ("&" in texts or names[0] == "TORCH_FN" or len(names) == len(texts) == 1):
            return names[-1]
    return ""


def _tvm(pieces: Sequence[Piece]) -> Iterator[tuple[str, str]]:
    for index, piece in enumerate(pieces):
        if piece.text == TVM_EXPORT:
            parts = list(split(pieces[index + 2 : closing(pieces, index + 1)]))
            if len(parts) == 2 and parts[1]:
                yield parts[0][0].text, parts[1][-1].text
        elif piece.text == TVM_BLOCK:
            start = next((i for i in range(index, len(pieces)) if pieces[i].text == "{"), index)
            yield from _tvm_block(pieces, start)


def _tvm_block(pieces: Sequence[Piece], start: int) -> Iterator[tuple[str, str]]:
    for index in range(start, closing(pieces, start)):
        if pieces[index].text == "def" and pieces[index + 1].text == "(":
            parts = list(split(pieces[index + 2 : closing(pieces, index + 1)]))
            if len(parts) > 1 and (target := _target(parts[1:])):
                yield parts[0][0].text.strip('"').rsplit(".", 1)[-1], target
