"""What a framework's host function says of its tensors: sizes, shapes, dtypes, access."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.draft import DTYPES, ELEMENTS
from astra_chat.tools.new.source import Function, Piece, closing, split
from astra_chat.tools.types import DTypeName

_SIZE = re.compile(
    r"(?:(?:const|auto|int|long|unsigned|(?:std::)?u?int(?:32|64)_t)\s+)+(?P<dim>[a-z_]\w*)\s*=\s*"
    r"(?:static_cast<[\w:]+>\(|\(int\)\s*)?"
    r"(?P<tensor>\w+)(?:\.|->)(?:sizes?|shape)\s*"
    r"(?:\(\s*(?P<a>-?\d+)\s*\)|(?:\(\s*\))?\s*\[\s*(?P<b>-?\d+)\s*\])\)?"
    r"(?:\s*/\s*(?P<by>\d+))?\s*;"
)
_COUNT = re.compile(
    r"(?:(?:const|auto|int|long|unsigned|(?:std::)?u?int(?:32|64)_t)\s+)+(?P<dim>[a-z_]\w*)\s*=\s*"
    r"(?:static_cast<[\w:]+>\(|\(int\)\s*)?(?P<tensor>\w+)(?:\.|->)numel\(\)\)?"
    r"(?:\s*/\s*(?P<by>\w+))?\s*;"
)
_LIKE = re.compile(
    r"(\w+)\s*=\s*(?:torch|at)::(?:(?:empty|zeros)_like\(\s*(\w+)"
    r"|(?:empty|zeros)\(\s*(\w+)\.sizes\(\))"
)
_MADE = re.compile(
    r"(\w+)\s*=\s*(?:torch|at)::(?:empty|zeros)\(\s*\{([^}]*)\}(?:\s*,\s*(\w+)\.options\(\))?"
)
_RETURN = re.compile(r"\breturn\s+(?:std::make_tuple\(|std::tuple|\{)?([\w\s,]+)[)}]?\s*;")
_DISPATCH = re.compile(r"\b(?:AT|VLLM|DISPATCH)\w*_(?:FLOATING|FLOAT|FP|HALF)\w*\s*\(")
DATA = r"(?:\.|->)\s*(?:(?:mutable_|const_)?data_ptr|data)\b"
_VARIABLE = re.compile(rf"\*\s*(?:__restrict__\s+)?(\w+)\s*=[^;=]*?\b(\w+){DATA}")
_POINTER = re.compile(rf"(\w+){DATA}\s*<\s*(?:const\s+)?([\w:]+)\s*>\s*\(")
_CAST = re.compile(
    rf"(?:static|reinterpret)_cast<\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*\s*>\(\s*(\w+){DATA}"
)


@dataclass
class Facts:
    """What was found; tensors by the name that they have in the host function."""

    sizes: dict[tuple[str, int], str] = field(default_factory=dict)
    """Tensor and index of a size: the extent, such as "d" or "2*d"."""
    counts: dict[str, str] = field(default_factory=dict)
    """Tensor: the dim that is all its elements or, by `over`, its rows."""
    over: dict[str, str] = field(default_factory=dict)
    """Tensor: the dim by which its count was divided."""
    dims: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    """Dim: the statement that makes it."""
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    elements: dict[str, set[DTypeName | None]] = field(default_factory=dict)
    """Tensor: what its pointer is cast to; several where the code branches on the dtype."""
    written: dict[str, bool] = field(default_factory=dict)
    """By the constness of the kernel's pointers, where a launch shows it."""
    returned: list[str] = field(default_factory=list)
    dispatched: tuple[DTypeName, ...] = ()


def facts_of(
    function: Function, source: str, pieces: Sequence[Piece], defined: Sequence[Function]
) -> Facts:
    """Read a host function's body; `found` is code without directives."""
    body = " ".join(p.text for p in pieces[function.body : function.close + 1])
    body = re.sub(r"\s*(::|\.|->|<|>|\(|\)|\[|\])\s*", r"\1", body)
    body = re.sub(r"(?<=[(\[])-\s+(?=\d)", "-", body)
    facts = Facts()
    _sizes(facts, body)
    _shapes(facts, body)
    _elements(facts, body)
    _writers(facts, function, pieces, defined, dict(_VARIABLE.findall(body)))
    returned = "void" not in function.returns.split()
    if returned:
        for match in _RETURN.finditer(body):
            names = (name.strip() for name in match[1].split(","))
            facts.returned += [n for n in names if n and n not in facts.returned]
    return facts


def _sizes(facts: Facts, body: str) -> None:
    for match in _SIZE.finditer(body):
        dim, by = match["dim"], match["by"]
        facts.sizes[match["tensor"], int(match["a"] or match["b"])] = f"{by}*{dim}" if by else dim
        _declare(facts, dim, match[0])
    for match in _COUNT.finditer(body):
        if not match["by"] and _shape_of(facts, match["tensor"]):
            continue  # the product of sizes that are dims already
        facts.counts[match["tensor"]] = match["dim"]
        if match["by"]:
            facts.over[match["tensor"]] = match["by"]
        _declare(facts, match["dim"], match[0])
    facts.dims.sort(key=lambda dim: _place(facts, dim))


def _declare(facts: Facts, dim: str, statement: str) -> None:
    if dim not in facts.dims:
        facts.dims.append(dim)
    facts.declared[dim] = statement


def _place(facts: Facts, dim: str) -> int:
    """Rows before columns: the index in a tensor's shape; counts of rows first."""
    if dim in facts.counts.values():
        return -1
    places = [at if at >= 0 else 90 + at for (_, at), e in facts.sizes.items() if dim in e]
    return min(places, default=50)


def _shapes(facts: Facts, body: str) -> None:
    for tensor in dict.fromkeys([*(t for t, _ in facts.sizes), *facts.counts]):
        if shape := _shape_of(facts, tensor):
            facts.shapes[tensor] = shape
    for out, like, sized in _LIKE.findall(body):
        if same := facts.shapes.get(like or sized):
            facts.shapes[out] = same
    for out, extents, _ in _MADE.findall(body):
        expressions = [e.replace(" ", "") for e in extents.split(",")]
        expressions = [_as_extent(facts, word) for word in expressions]
        if expressions and all(expressions):
            facts.shapes[out] = tuple(expressions)


def _as_extent(facts: Facts, word: str) -> str:
    known = {f"{t}.size({i})": e for (t, i), e in facts.sizes.items()}
    word = known.get(word, word)
    factors = word.split("*")
    return word if all(f in facts.dims or f.isdecimal() for f in factors) else ""


def _shape_of(facts: Facts, tensor: str) -> tuple[str, ...]:
    at = {index: extent for (name, index), extent in facts.sizes.items() if name == tensor}
    if tensor in facts.counts:
        rows, over = facts.counts[tensor], facts.over.get(tensor)
        return (rows, over) if over in facts.dims else (rows,) if over is None else ()
    if set(at) == {0, -1}:
        return (at[0], at[-1])
    if at and set(at) == set(range(len(at))) and len(at) > 1:
        return tuple(at[i] for i in range(len(at)))
    return ()


def _elements(facts: Facts, body: str) -> None:
    pairs = _POINTER.findall(body) + [(t, e) for e, t in _CAST.findall(body)]
    for tensor, element in pairs:
        facts.elements.setdefault(tensor, set()).add(ELEMENTS.get(element))
    branches = [e for e in facts.elements.values() if len(e) > 1 and None not in e]
    facts.dispatched = tuple(d for d in DTYPES if any(d in e for e in branches))
    for dispatch in _DISPATCH.finditer(body):
        head = body[dispatch.start() : body.find("{", dispatch.end())]
        names: list[DTypeName] = ["float32"]
        if "REDUCED_FLOATING" in head:
            facts.dispatched = ("float16", "bfloat16")
            continue
        if re.search(r"HALF|Half", head):
            names.insert(0, "float16")
        if re.search(r"BF16|BFLOAT16|BFloat16|_HALF_TYPES|FP16", head):
            names.insert(-1, "bfloat16")
        facts.dispatched = tuple(names)


def _writers(
    facts: Facts,
    function: Function,
    pieces: Sequence[Piece],
    defined: Sequence[Function],
    variables: Mapping[str, str],
) -> None:
    """Each launch k<<<...>>>(a.data_ptr(), ...): the kernel's const pointers are read only.

    `variables` are pointers by name, with the tensor that each points into.
    """
    kernels = {f.name: f for f in defined if "__global__" in f.returns}
    name = ""
    for index in range(function.body, function.close):
        if pieces[index].text in kernels:
            name = pieces[index].text
        if pieces[index].text == ">>>" and name and pieces[index + 1].text == "(":
            arguments = split(pieces[index + 2 : closing(pieces, index + 1)])
            for argument, parameter in zip(arguments, kernels[name].parameters, strict=False):
                tensor = _pointed([p.text for p in argument], variables)
                if tensor and "*" in parameter.type:
                    writes = re.search(r"\bconst\b", parameter.type) is None
                    facts.written[tensor] = facts.written.get(tensor, False) or writes


def _pointed(texts: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """The tensor whose data an argument is: a.data_ptr<T>(), or a variable that holds it."""
    at = next((i for i, text in enumerate(texts) if "data" in text), None)
    if at is not None and at >= 2:
        return texts[at - 2]
    return variables.get(texts[0]) if len(texts) == 1 else None
