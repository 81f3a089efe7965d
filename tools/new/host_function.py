"""What a framework's host function says of its tensors: sizes, strides, shapes, dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.aliases import aliases, without_aliases
from astra_chat.tools.new.draft import USUAL, dtype_named
from astra_chat.tools.new.source import Function, Piece, closing, split
from astra_chat.tools.new.stated import DTYPE_WORDS
from astra_chat.tools.types import DTypeName

DECLARED = r"(?:(?:const|auto|int|long|unsigned|(?:std::)?u?int(?:32|64)_t|size_t)\s+)+"
_SIZE = re.compile(
    DECLARED + r"(?P<dim>[a-z_]\w*)\s*=\s*"
    r"(?:static_cast<[\w:]+>\(|\(int\)\s*)?"
    r"(?P<tensor>\w+)(?:\.|->)(?:sizes?|shape)\s*"
    r"(?:\(\s*(?P<a>-?\d+)\s*\)|(?:\(\s*\))?\s*\[\s*(?P<b>-?\d+)\s*\])\)?"
    r"(?:\s*/\s*(?P<by>\w+))?\s*;"
)
_COUNT = re.compile(
    DECLARED + r"(?P<dim>[a-z_]\w*)\s*=\s*"
    r"(?:static_cast<[\w:]+>\(|\(int\)\s*)?(?P<tensor>\w+)(?:\.|->)numel\(\)\)?"
    r"(?:\s*/\s*(?:(?P<last>(?P=tensor)(?:\.|->)size\(-1\))|(?P<by>\w+)))?\s*;"
)
_STRIDE = re.compile(r"\b(\w+)(?:\.|->)strides?(?:\(\s*(-?\d+)\s*\)|(?:\(\s*\))?\[\s*(-?\d+)\s*\])")
_RETURN = re.compile(r"\breturn\s+(?:std::make_tuple\(|std::tuple|\{)?([\w\s,]+)[)}]?\s*;")
_DISPATCH = re.compile(r"\b(?:AT|VLLM|DISPATCH|SGL|FLASHINFER)\w*\s*\(")
INNER = "inner_t"
"""Type that a callee dispatches by the name which the caller's has."""
DATA = r"(?:\.|->)\s*(?:value\(\)\s*\.\s*)?(?:(?:mutable_|const_)?data_ptr|data)\b"
_POINTER = re.compile(rf"(\w+){DATA}\s*<\s*(?:const\s+)?([\w:]+)\s*>\s*\(")
_CAST = re.compile(
    rf"(?:static|reinterpret)_cast<\s*(?:const\s+)?([\w:]+)\s*(?:const\s*)?\*\s*>\(\s*(\w+){DATA}"
)


_TESTED = re.compile(r"(\w+)(?:\.|->)(?:scalar_type|dtype)\(\)\s*=\s*=\s*(?:\w+::)+k?(\w+)")


_LISTS = re.compile(r"\bmulti_tensor_apply<(\d+)>")


@dataclass
class Facts:
    """What was found; tensors by the name that they have in the host function."""

    sizes: dict[tuple[str, int], str] = field(default_factory=dict)
    """Tensor and index of a size: the extent, such as "d" or "2*d"."""
    counts: dict[str, str] = field(default_factory=dict)
    """Tensor: the dim that is all its elements or, by `over`, its rows."""
    over: dict[str, str] = field(default_factory=dict)
    """Tensor: the extent by which its count was divided."""
    strides: dict[str, set[int]] = field(default_factory=dict)
    """Tensor: the axes whose strides the code asks for."""
    dims: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    elements: dict[str, list[DTypeName]] = field(default_factory=dict)
    """Tensor: what its pointer is cast to; several where the code branches on the dtype."""
    words: dict[str, list[str]] = field(default_factory=dict)
    """Tensor: all C++ types that its pointer is cast to."""
    returned: list[str] = field(default_factory=list)
    variables: dict[str, tuple[DTypeName, ...]] = field(default_factory=dict)
    """C++ type names that a dispatch macro makes, in order: what each may stand for."""
    switched: dict[str, str] = field(default_factory=dict)
    """Tensor: the type name that is dispatched on its dtype."""
    branches: tuple[DTypeName, ...] = ()
    """Dtypes of tensors that the code tells apart with if."""
    lists: int = 1
    """How many lists of tensors a parameter holds that holds lists: apex's functions say it."""
    guessed: bool = False
    """A dispatch macro does not say its dtypes."""
    letters: dict[str, str] = field(default_factory=dict)
    """C++ type name: the type variable of the contract."""


def facts_of(function: Function, pieces: Sequence[Piece]) -> Facts:
    """Read a host function's body; `pieces` are code without directives."""
    body = " ".join(p.text for p in pieces[function.body : function.close + 1])
    body = re.sub(r"\s*(::|\.|->|<|>|\(|\)|\[|\])\s*", r"\1", body)
    body = re.sub(r"(?<=[(\[])-\s+(?=\d)", "-", body)
    body = without_aliases(body, aliases(function, pieces))
    facts = Facts()
    _sizes(facts, body)
    _shapes(facts, body)
    _elements(facts, body)
    for start in (p for p in range(function.body, function.close) if _is_dispatch(pieces, p)):
        _dispatch(facts, pieces, start)
    facts.lists = max(map(int, _LISTS.findall(body)), default=1)
    returned = "void" not in function.returns.split()
    if returned:
        for match in _RETURN.finditer(body):
            listed = re.search(rf"\b{match[1].strip()} = \{{([\w ,]+)\}}", body)
            names = (name.strip() for name in (listed or match)[1].split(","))
            facts.returned += [n for n in names if n and n not in facts.returned]
        inputs = {p.name for p in function.parameters}
        facts.returned = [n for n in facts.returned if n not in inputs and not n.isdecimal()]
    return facts


def _sizes(facts: Facts, body: str) -> None:
    for match in _SIZE.finditer(body):
        dim, by = match["dim"], match["by"]
        facts.sizes[match["tensor"], int(match["a"] or match["b"])] = f"{by}*{dim}" if by else dim
        _declare(facts, dim)
    for match in _COUNT.finditer(body):
        tensor, by = match["tensor"], match["by"]
        if match["last"] and not (by := facts.sizes.get((tensor, -1))):
            continue
        if not by and _shape_of(facts, tensor):
            continue  # the product of sizes that are dims already
        facts.counts[tensor] = match["dim"]
        if by:
            facts.over[tensor] = by
        _declare(facts, match["dim"])
    for match in _STRIDE.finditer(body):
        facts.strides.setdefault(match[1], set()).add(int(match[2] or match[3]))
    facts.dims.sort(key=lambda dim: _place(facts, dim))


def _declare(facts: Facts, dim: str) -> None:
    if dim not in facts.dims:
        facts.dims.append(dim)


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


def _shape_of(facts: Facts, tensor: str) -> tuple[str, ...]:
    at = {index: extent for (name, index), extent in facts.sizes.items() if name == tensor}
    if (
        tensor in facts.counts
        and set(at) <= {0, -1}
        and facts.strides.get(tensor, set()) <= {0, -1}
    ):
        rows, over = facts.counts[tensor], facts.over.get(tensor)
        known = over in {*facts.dims, *facts.sizes.values()}
        return (rows, over) if known and over else (rows,) if over is None else ()
    if set(at) == {0, -1}:
        return (at[0], at[-1])
    if at and set(at) == set(range(len(at))) and len(at) > 1:
        return tuple(at[i] for i in range(len(at)))
    return ()


def _elements(facts: Facts, body: str) -> None:
    pairs = _POINTER.findall(body) + [(t, e) for e, t in _CAST.findall(body)]
    pairs += _TESTED.findall(body)
    for tensor, element in pairs:
        facts.words.setdefault(tensor, []).append(element)
        if dtype := dtype_named(element) or DTYPE_WORDS.get(element):
            seen = facts.elements.setdefault(tensor, [])
            seen += [dtype] * (dtype not in seen)
    several = [e for e in facts.elements.values() if len(e) > 1]
    facts.branches = tuple(d for d in USUAL if any(d in e for e in several))


def _is_dispatch(pieces: Sequence[Piece], at: int) -> bool:
    return pieces[at + 1].text == "(" and _DISPATCH.match(f"{pieces[at].text}(") is not None


def _dispatch(facts: Facts, pieces: Sequence[Piece], start: int) -> None:
    """A macro that runs a lambda for each dtype: which tensor's, the type's name, the dtypes."""
    opened = start + 1
    lambda_at = next((i for i in range(opened, len(pieces)) if pieces[i].text == "{"), opened)
    parts = ["".join(p.text for p in part) for part in split(pieces[opened + 1 : lambda_at])]
    macro = pieces[start].text
    named = [p for p in parts[1:] if re.fullmatch(r"[A-Za-z_]\w*", p)]
    type_name = _type_name(macro)
    if named and not macro.startswith(("AT_", "VLLM_")):
        type_name = named[-1]
    else:
        words = {p.text for p in pieces[lambda_at : closing(pieces, opened)]}
        offered = (INNER, type_name)
        type_name = next((one for one in offered if one in words), "scalar_t")
    dtypes = _dispatched(macro, " ".join(parts))
    if not dtypes and "TYPE" in macro:
        dtypes, facts.guessed = ("float16", "bfloat16"), True
    if dtypes:
        facts.variables.setdefault(type_name, dtypes)
        if tensor := re.search(r"(\w+)(?:\.|->)(?:scalar_type|dtype)", " ".join(parts)):
            facts.switched.setdefault(tensor[1], type_name)


def _type_name(macro: str) -> str:
    if "INDEX" in macro:
        return "index_t"
    if "FP8" in macro:
        return "fp8_t"
    return "quant_t" if "QUANT" in macro else "scalar_t"


def _dispatched(macro: str, words: str) -> tuple[DTypeName, ...]:
    """The dtypes of a dispatch macro, by its name and by the dtypes that it is given."""
    if re.search(r"INDEX|IDTYPE", macro):
        return ("int32", "int64")
    if "INTEGRAL" in macro:
        return ("int32", "int64")  # those of 8 bits hold few places
    if "QUANT" in macro:
        return ("float8_e4m3fn", "int8")
    if "FP8" in macro or "FLOAT8" in macro:
        others = _floats(macro, "") if re.search("FP16|HALF|BF16", macro) else ()
        return (*others, "float8_e4m3fn")
    return tuple(_floats(macro, words))


def _floats(macro: str, words: str) -> Iterator[DTypeName]:
    if not re.search(r"FLOAT|FP16|HALF|DTYPE|BF16", macro):
        return
    text = f"{macro} {words}"
    plain_torch = macro.startswith("AT_") and "REDUCED" not in macro
    halves = "REDUCED" in macro or macro.startswith("VLLM")
    if halves or re.search(r"HALF|Half|FP16", text):
        yield "float16"
    if halves or re.search(r"BF16|BFLOAT16|BFloat16|HALF_TYPES|FP16", text):
        yield "bfloat16"
    if plain_torch or (re.search(r"FLOATING|FLOAT_", macro) and "REDUCED" not in macro):
        yield "float32"
