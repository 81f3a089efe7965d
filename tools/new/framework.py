"""What a torch C++ extension or a tvm-ffi file exports, as a launcher without the framework."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new.baseline_source import baseline
from astra_chat.tools.new.draft import DTYPES, Draft, Scalar, Tensor
from astra_chat.tools.new.host_function import Facts, facts_of
from astra_chat.tools.new.named_sizes import with_names
from astra_chat.tools.new.source import (
    Function,
    Parameter,
    Piece,
    closing,
    code,
    functions,
    pieces,
    split,
)
from astra_chat.tools.types import DTypeName

MODULES = ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL")
TVM_EXPORT = "TVM_FFI_DLL_EXPORT_TYPED_FUNC"
TVM_BLOCK = "TVM_FFI_STATIC_INIT_BLOCK"
HEADERS = re.compile(
    r'["<](torch|ATen|c10|pybind11|tvm|dlpack|Python\.h|caffe2)(/[^">]*)?[">]|["<]Python\.h[">]'
)
TENSORS = ("Tensor", "TensorView", "DLTensor")
_COPY = re.compile(r"((?:[\w:&]+[ \t]+&?)?\b(\w+)\s*=\s*(\w+)\.contiguous\(\)\s*;)")
_INTEGERS = ("int64_t", "int", "long", "int32_t", "std::int64_t")
_FLOATS = ("double", "float")


@dataclass(frozen=True)
class Export:
    """A function under the name that Python calls."""

    name: str
    function: Function
    schema: str
    """Of torch, where it gives one: "f(Tensor x, Tensor! out) -> ()"."""
    kind: str
    """torch or tvm-ffi."""


def is_framework_header(text: str) -> bool:
    return HEADERS.match(text) is not None


def exports(pieces: Sequence[Piece], defined: Sequence[Function]) -> list[Export]:
    """Exported functions whose bodies stand in the file; `found` is code without directives."""
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


def _registrations(
    pieces: Sequence[Piece], defined: Sequence[Function]
) -> Iterator[tuple[str, str, str]]:
    """Name, schema and C++ function of each m.def and m.impl."""
    for module in defined:
        if module.name in MODULES:
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


def draft_of(
    export: Export,
    source: str,
    all_pieces: Sequence[Piece],
    defined: Sequence[Function],
    entry: str,
) -> Draft:
    """Tensors, sizes and scalars of an exported function, and the launcher to complete."""
    plain = code(all_pieces)
    for rewrite in (_without_copies, _with_named_sizes):
        if (same := rewrite(source, export.function, plain)) != source:
            all_pieces = pieces(same)
            plain = code(all_pieces)
            defined = functions(plain)
            again = next(e for e in exports(plain, defined) if e.name == export.name)
            return draft_of(again, same, all_pieces, defined, entry)
    facts = facts_of(export.function, source, plain, defined)
    tensors, integers, scalars = _parameters(export, facts)
    dims = list(dict.fromkeys([*facts.dims, *integers]))
    shapes = facts.shapes
    tensors = [
        replace(t, shape=shapes.get(t.name, ()), dtype=_element(facts, t.name)) for t in tensors
    ]
    dtypes, known = _dtypes(facts, tensors)
    draft = Draft(
        entry=entry, tensors=tuple(tensors), dims=tuple(dims), scalars=tuple(scalars),
        dtypes=dtypes, dtypes_known=known,
        origin=f"{export.name} of the {export.kind} extension",
    )  # fmt: skip
    text = baseline(draft, export.function, facts, source, all_pieces, defined)
    return replace(draft, baseline=text)


def _without_copies(source: str, function: Function, plain: Sequence[Piece]) -> str:
    """`auto a = b.contiguous();` is cut and a is b: the contract's tensors are contiguous."""
    start, end = plain[function.body].start, plain[function.close].end
    body = source[start:end]
    for statement, copy, tensor in _COPY.findall(body):
        body = re.sub(rf"\b{copy}\b", tensor, body.replace(statement, ""))
    return source[:start] + body + source[end:]


def _with_named_sizes(source: str, function: Function, plain: Sequence[Piece]) -> str:
    """x.size(0) in an expression becomes a variable of the function, and so a dim."""
    start, end = plain[function.body].start, plain[function.close].end
    tensors = [p.name for p in function.parameters if _is_tensor(p)]
    return source[:start] + with_names(source[start:end], tensors) + source[end:]


def _is_tensor(parameter: Parameter) -> bool:
    return _type(parameter) in TENSORS


def _type(parameter: Parameter) -> str:
    return parameter.type.replace("const ", "").rstrip(" &*").split("::")[-1]


def _element(facts: Facts, tensor: str) -> DTypeName | None:
    elements = facts.elements.get(tensor, set())
    return next(iter(elements)) if len(elements) == 1 else None


def _dtypes(facts: Facts, tensors: Sequence[Tensor]) -> tuple[tuple[DTypeName, ...], bool]:
    if facts.dispatched:
        return facts.dispatched, True
    concrete = {t.dtype for t in tensors} - {None}
    narrow = [d for d in DTYPES if d in concrete and d != "float32"]
    if len(narrow) == 1:
        return (narrow[0],), True
    if concrete == {"float32"} and all(t.dtype for t in tensors):
        return ("float32",), True
    return DTYPES, False


def _parameters(export: Export, facts: Facts) -> tuple[list[Tensor], list[str], list[Scalar]]:
    tensors: list[Tensor] = []
    integers: list[str] = []
    scalars: list[Scalar] = []
    for parameter in export.function.parameters:
        if _is_tensor(parameter):
            tensors.append(Tensor(parameter.name, _written(parameter, export, facts)))
        elif _type(parameter) in _INTEGERS:
            integers.append(parameter.name)
        elif _type(parameter) in (*_FLOATS, "bool"):
            kind = "int64_t" if _type(parameter) == "bool" else "float"
            scalars.append(Scalar(parameter.name, kind, _default(parameter, export.schema)))
        else:
            raise BadInput(
                f"line {export.function.line}: {export.function.name} takes '{parameter.type}"
                f" {parameter.name}': a task's kernel takes tensors, integers and floats"
            )
    known = {t.name for t in tensors}
    made = [Tensor(name, True, made=True) for name in facts.returned if name not in known]
    return [*made, *tensors], integers, scalars


def _written(parameter: Parameter, export: Export, facts: Facts) -> bool:
    """By the kernel's own pointers first, then torch's schema, then the name."""
    if parameter.name in facts.written:
        return facts.written[parameter.name]
    if export.schema:
        return re.search(rf"Tensor(\(\w+!\)|!)\??\s+{parameter.name}\b", export.schema) is not None
    return parameter.name.startswith(("out", "dst", "result")) or parameter.name == "y"


def _default(parameter: Parameter, schema: str) -> str:
    stated = re.search(rf"\b{parameter.name}\s*=\s*([^,)]+)", schema)
    return parameter.default or (stated[1].strip() if stated else "")
