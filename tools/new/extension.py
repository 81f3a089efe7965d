"""The draft of a task from an exported function of a torch C++ extension or a tvm-ffi file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_chat.tools.new.binding import LISTED_SIZE, binding_of, is_number_list, names_in_list
from astra_chat.tools.new.c_launcher import contract_name
from astra_chat.tools.new.draft import (
    Draft,
    DraftScalar,
    Tensor,
    access_of,
    is_no_size,
)
from astra_chat.tools.new.framework import Export, same_export
from astra_chat.tools.new.host_function import INNER, Facts, facts_of
from astra_chat.tools.new.layout import GUESSED, TensorShapes, expression, layout_of, strides_of
from astra_chat.tools.new.like_named import Alike, LikeNamed
from astra_chat.tools.new.named_sizes import with_names
from astra_chat.tools.new.source import (
    BadSource,
    Function,
    Parameter,
    Piece,
    closing,
    code,
    functions,
    macros_of,
    pieces,
    split,
)
from astra_chat.tools.new.stated import Shape, Stated, comment_shapes, stated
from astra_chat.tools.new.type_variables import dtype_of, letters_of, variables_among
from astra_chat.tools.new.valid_names import with_valid_names

TENSORS = ("Tensor", "TensorView", "DLTensor")
_COPY = re.compile(r"((?:[\w:&]+[ \t]+&?)?\b(\w+)\s*=\s*(\w+)\.contiguous\(\)\s*;)")
_ASKS = frozenset("size sizes numel stride strides data_ptr shape".split())
_SIZED = re.compile(r"\b(\w*[A-Z]\w*)\s*=\s*[^;=]*?(?:\.|->)\s*(?:sizes?|shape|numel)\b")
_INTEGERS = (
    "int64_t",
    "int",
    "long",
    "int32_t",
    "size_t",
    "uint32_t",
    "uint64_t",
    "unsigned",
    "long long",
    "unsigned int",
    "SymInt",
)
_FLOATS = ("double", "float")
TEXTS = ("string", "string_view", "String")
NO_NUMBERS = (*TEXTS, "ScalarType", "Dtype", "DLDataType", "Generator", "cudaStream_t", "Device")
"""Parameters that no contract holds: [binding] gives them."""
_CONST = re.compile(r"\bconst | const\b")
OPTIONAL = re.compile(r"(?:\w+::)*[oO]ptional<(?:const )?(.*?)(?: ?&)?>")
NOT_SEEN = "is it only read, only written, or both?"


@dataclass
class _Reading:
    """What the parameters of the function are."""

    tensors: list[Tensor]
    integers: list[DraftScalar]
    scalars: list[DraftScalar]
    listed: list[str] = field(default_factory=list)
    """Tensors that lists of them hold."""


def draft_of(
    export: Export,
    source: str,
    entry: str,
    headers: Mapping[str, str],
    shapes: Mapping[str, tuple[str, ...]],
) -> Draft:
    """Tensors, sizes and scalars of an exported function, and the launcher to complete."""
    given = export.function.parameters
    known = {name: [shape] for name, shape in shapes.items()}
    for rewrite in _REWRITES:
        source = rewrite(source, export.function, code(pieces(source)), known)
        plain = code(pieces(source))
        export = same_export(export, plain)
    function, facts = export.function, facts_of(export.function, plain)
    reading, said = _parameters(export, facts), stated(export.function, source, plain)
    said.comments |= known
    named = LikeNamed([source, *headers.values()], function)
    alike = {t.name: named.of(t.name) for t in reading.tensors}
    for name, found in alike.items():
        said.comments.setdefault(name, found.comments)
    layout = layout_of(
        [t.name for t in reading.tensors],
        said,
        facts.sizes,
        facts.shapes,
        facts.dims,
        [n.name for n in reading.integers],
    )
    for name in reading.listed:  # what a list holds is named nowhere
        layout.shapes.setdefault(name, (LISTED_SIZE,))
        layout.dims = list(dict.fromkeys([*layout.dims, LISTED_SIZE]))
    facts.letters = letters_of(facts.variables)
    tensors = [_tensor(t, export, facts, said, layout, alike[t.name]) for t in reading.tensors]
    if not any(t.written for t in tensors):
        tensors = [replace(t, access="readwrite") if NOT_SEEN in t.doubts else t for t in tensors]
    tensors, variables, told = variables_among(tensors, facts, said)
    dims, scalars = _sizes_and_scalars(reading, layout, tensors)
    draft = Draft(
        entry=entry,
        tensors=tuple(tensors),
        dims=tuple(dims),
        scalars=tuple(scalars),
        variables=variables,
        variables_known=told,
        multiples=_multiples(said, layout, dims),
        require=_relations(said, dims),
        origin=f"{export.name} of the {export.kind} extension",
    )
    bound = binding_of(export, given, draft)
    return with_valid_names(replace(draft, makes_tensors=True, **bound))


def _with_macros(
    source: str, function: Function, plain: Sequence[Piece], _: Mapping[str, list[Shape]]
) -> str:
    """The macros of the file in which sizes or pointers are asked for stand in the body."""
    macros, bodies = macros_of(pieces(source)), []
    for at in range(function.body, function.close):
        words = macros.get(plain[at].text, [])
        if not words or not _ASKS & {*words}:
            continue
        names: dict[str, str] = {}
        if words[0] == "(" and plain[at + 1].text == "(":
            end = words.index(")")
            given = (" ".join(p.text for p in part) for part in _arguments(plain, at + 1))
            names = dict(zip(words[1:end:2], given, strict=False))
            words = words[end + 1 :]
        bodies.append(" ".join(names.get(word, word) for word in words if word != "\\"))
    start = plain[function.body].end
    return source[:start] + "".join(f" {body};" for body in bodies) + source[start:]


def _with_callees(
    source: str, function: Function, plain: Sequence[Piece], _: Mapping[str, list[Shape]]
) -> str:
    """The bodies of host functions that get its tensors stand in its own, by its names for them:
    what they check and ask for is as if it did."""
    tensors = {p.name for p in function.parameters if _is_tensor(p)}
    host = {f.name: f for f in functions(plain) if not (f.on_device or f.is_method)}
    bodies = []
    for at in range(function.body, function.close):
        callee = host.get(plain[at].text)
        if callee is None or callee.name == function.name:
            continue
        opened, types = at + 1, list[str]()
        if plain[opened].text == "<":  # f<float>(x)
            opened = next((i for i in range(at, function.close) if plain[i].text == "("), at)
            types = ["".join(p.text for p in part) for part in split(plain[at + 2 : opened - 1])]
        if plain[opened].text != "(":
            continue
        passed = ["".join(p.text for p in part) for part in _arguments(plain, opened)]
        pairs = zip((p.name for p in callee.parameters), passed, strict=False)
        names = {name: given for name, given in pairs if re.fullmatch(r"\w+", given)}
        names |= {"scalar_t": INNER} if "scalar_t" in types else {}
        names |= {own: given for (_, own, _), given in zip(callee.template, types, strict=False)}
        if tensors & {*names.values()}:
            words = [p.text for p in plain[callee.body + 1 : callee.close]]
            bodies.append(" ".join(names.get(word, word) for word in words))
    start = plain[function.body].end
    return source[:start] + " ".join(bodies) + source[start:]


def _arguments(plain: Sequence[Piece], opened: int) -> list[list[Piece]]:
    return list(split(plain[opened + 1 : closing(plain, opened)]))


def _without_copies(
    source: str, function: Function, plain: Sequence[Piece], _: Mapping[str, list[Shape]]
) -> str:
    """`auto a = b.contiguous();` is cut and a is b: the contract says what is contiguous."""
    start, end = plain[function.body].start, plain[function.close].end
    body = source[start:end]
    for statement, copy, tensor in _COPY.findall(body):
        body = re.sub(rf"\b{copy}\b", tensor, body.replace(statement, "\n" * statement.count("\n")))
    return source[:start] + body + source[end:]


def _with_small_names(
    source: str, function: Function, plain: Sequence[Piece], _: Mapping[str, list[Shape]]
) -> str:
    """Variables of the body that are sizes have names that dims may have: N is n."""
    start, end = plain[function.body].start, plain[function.close].end
    body = source[start:end]
    taken = {p.text for p in plain[function.body : function.close]}
    taken |= {p.name for p in function.parameters}
    for name in dict.fromkeys(_SIZED.findall(body)):
        own = contract_name(name)
        if own != name and own not in taken:
            taken.add(own)
            body = re.sub(rf"\b{name}\b", own, body)
    return source[:start] + body + source[end:]


def _with_named_sizes(
    source: str, function: Function, plain: Sequence[Piece], known: Mapping[str, list[Shape]]
) -> str:
    """x.size(0) in an expression becomes a variable of the function, and so a dim, by the name that
    a comment gives it."""
    start, end = plain[function.body].start, plain[function.close].end
    tensors = [p.name for p in function.parameters if _is_tensor(p)]
    names: dict[tuple[str, str], str] = {}
    for tensor, shapes in {**comment_shapes(function, source), **known}.items():
        for axis, extent in enumerate(shapes[0] if len(shapes) == 1 else ()):
            names[tensor, str(axis)] = extent
            names[tensor, str(axis - len(shapes[0]))] = extent
    return source[:start] + with_names(source[start:end], tensors, names) + source[end:]


_REWRITES = (_with_macros, _with_callees, _without_copies, _with_small_names, _with_named_sizes)


def kind_of(parameter: Parameter) -> str:
    """Without const, references, namespaces and optional: "Tensor"."""
    plain = _CONST.sub("", parameter.type).rstrip(" &*")
    optional = OPTIONAL.fullmatch(plain)
    return (optional[1] if optional else plain).rstrip(" &*").split("::")[-1]


def _is_optional(parameter: Parameter) -> bool:
    return OPTIONAL.fullmatch(_CONST.sub("", parameter.type).rstrip(" &*")) is not None


def _is_tensor(parameter: Parameter) -> bool:
    return kind_of(parameter) in TENSORS


def _parameters(export: Export, facts: Facts) -> _Reading:
    reading = _Reading([], [], [])
    for parameter in export.function.parameters:
        kind, default = kind_of(parameter), _default(parameter, export.schema)
        if _is_tensor(parameter):
            optional = _is_optional(parameter)
            reading.tensors.append(Tensor(parameter.name, "read", optional=optional))
        elif kind in _INTEGERS and not _is_optional(parameter):
            reading.integers.append(DraftScalar(parameter.name, "int64_t", default))
        elif kind in (*_FLOATS, "bool") and not _is_optional(parameter):
            scalar = "bool" if kind == "bool" else "float"
            reading.scalars.append(DraftScalar(parameter.name, scalar, default))
        elif kind in NO_NUMBERS or _is_optional(parameter) or is_number_list(parameter):
            continue  # a constant of [binding]
        elif names := names_in_list(parameter, facts.lists):
            reading.listed += names
        else:
            raise BadSource(
                parameter.line,
                f"{export.function.name} takes '{parameter.type} {parameter.name}': a task's kernel"
                " takes tensors, integers, floats and bools; write a function that calls it with"
                " these, in a file for --launcher",
            )
    reading.tensors += [Tensor(name, "read") for name in reading.listed]
    known = {t.name for t in reading.tensors}
    made = [Tensor(name, "write") for name in facts.returned if name not in known]
    reading.tensors = [*made, *reading.tensors]
    return reading


def _default(parameter: Parameter, schema: str) -> str:
    stated = re.search(rf"\b{parameter.name}\s*=\s*([^,)]+)", schema)
    return parameter.default or (stated[1].strip() if stated else "")


def _tensor(
    tensor: Tensor, export: Export, facts: Facts, said: Stated, layout: TensorShapes, alike: Alike
) -> Tensor:
    """With dtype, shape, strides and access, and what is doubtful of them."""
    shape = layout.shapes.get(tensor.name, ())
    access, doubt = _access(tensor, export, alike)
    doubts = [doubt, layout.doubts.get(tensor.name, "")]
    asked = facts.strides.get(tensor.name, set())
    strides = strides_of(shape, asked) if shape else ()
    if not shape:
        doubts.append(GUESSED)
        rank = said.ranks.get(tensor.name) or max((a + 2 for a in asked if a >= 0), default=0)
        strides = ("free",) * (rank - 1) + ("1",) if asked and rank > 1 else ()
    elif strides.count("free") > len({a % len(shape) for a in asked}):
        doubts.append("are the outer strides free?")
    return replace(
        tensor,
        access=access,
        dtype=dtype_of(tensor, facts, said, alike),
        shape=shape,
        strides=strides,
        doubts=tuple(doubt for doubt in doubts if doubt),
    )


def _access(tensor: Tensor, export: Export, alike: Alike) -> tuple[str, str]:
    """How it is used, and a doubt: by torch's schema, then const of kernels, then the name."""
    if tensor.access == "write":
        return "write", ""  # the function allocated it
    if alike.constant:
        return "read", ""
    written = bool(re.search(rf"Tensor(\(\w+!\)|!)\??\s+{tensor.name}\b", export.schema))
    by_name = tensor.name.startswith(("out", "dst", "result")) or tensor.name == "y"
    if written or alike.constant is False or (by_name and not export.schema):
        return access_of(tensor.name)
    return "read", "" if export.schema else NOT_SEEN


def _sizes_and_scalars(
    reading: _Reading, layout: TensorShapes, tensors: Sequence[Tensor]
) -> tuple[list[str], list[DraftScalar]]:
    """Integers that no shape names are scalars, once all shapes are known."""
    dims, scalars = list(layout.dims), []
    all_known = all(t.shape for t in tensors) and dims
    for integer in reading.integers:
        if integer.name in dims:
            continue
        if all_known or reading.listed or is_no_size(integer.name):
            doubt = "is it a number, as here, or a size, which belongs under [dims]?"
            scalars.append(replace(integer, doubt=doubt))
        else:
            dims.append(integer.name)
    if not dims and not any(t.shape for t in tensors):
        dims = [LISTED_SIZE]
    return _as_in_shapes(dims, tensors), [*scalars, *reading.scalars]


def _as_in_shapes(dims: Sequence[str], tensors: Sequence[Tensor]) -> list[str]:
    """Dims in the order of a shape that has all of them, which is likely that of other tensors."""
    whole = (t.shape for t in tensors if len(t.shape) == len(dims) and {*t.shape} == {*dims})
    return list(next(whole, dims))


def _multiples(said: Stated, layout: TensorShapes, dims: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text, number in said.multiples:
        if (extent := expression(layout, text, set(dims))) in dims:
            found[extent] = max(number, found.get(extent, 1))
    return found


def _relations(said: Stated, dims: Sequence[str]) -> tuple[str, ...]:
    """Comparisons of dims in checks."""
    relations = []
    for text in said.relations:
        names = re.findall(r"[A-Za-z_]\w*", text)
        sides = re.split(r"==|<=|>=|<|>", text)
        if names and all(name in dims for name in names) and len(set(sides)) > 1:
            spaced = re.sub(r"(==|<=|>=|<|>)", r" \1 ", text)
            relations.append(re.sub(r"(?<!/)/(?!/)", "//", spaced))
    return tuple(dict.fromkeys(relations))
