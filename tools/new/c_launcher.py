"""A file with a launcher in plain C++: a host function that launches a kernel and takes pointers,
numbers and a stream. It may be a template over element types.

Where its parameters are those of the contract, in the contract's order, it is the launcher; else
[binding] calls it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_chat.tools.new.draft import (
    USUAL,
    Draft,
    DraftScalar,
    Tensor,
    access_of,
    dtype_named,
    is_no_size,
    usual_in,
    variables_of,
)
from astra_chat.tools.new.layout import GUESSED, contiguous, layout_of, with_stride
from astra_chat.tools.new.like_named import Alike, LikeNamed, element
from astra_chat.tools.new.source import (
    BadSource,
    Function,
    Parameter,
    Piece,
    code,
    macros_of,
    pieces,
    spaced,
    split,
)
from astra_chat.tools.new.stated import stated
from astra_chat.tools.new.type_variables import of_codes
from astra_chat.tools.types import C_TYPES, DTypeName

STREAMS = ("cudaStream_t", "CUstream", "CUstream_st *", "cudaStream_t *")
INTEGERS = re.compile(
    r"((unsigned|signed) )?(int|long|long long|unsigned|short|(std::)?u?int(32|64)_t"
    r"|(std::)?size_t|ptrdiff_t)"
)
FLOATS = ("float", "double")
_ENUM = re.compile(r"enum (class |struct )?[\w:]+")
_CUDAS = ("half", "nv_bfloat16", *C_TYPES.values())
"""Names of CUDA's own element types."""
_NAMED = {"I": re.compile(r"(?i)id|index"), "Q": re.compile(r"(?i)quant|fp8|code")}
"""Type variables by the names of template parameters."""
_LAUNCHES = ("<<<", "cudaLaunchKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC")


@dataclass
class _LauncherParameters:
    """What the parameters gave so far; `passed` is what [binding] gives each."""

    tensors: list[Tensor] = field(default_factory=list)
    integers: list[DraftScalar] = field(default_factory=list)
    scalars: list[DraftScalar] = field(default_factory=list)
    passed: list[object] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    """Type variables of which the launcher takes a dtype code."""


def launchers(
    defined: Sequence[Function], pieces: Sequence[Piece], objects: Container[str] = ()
) -> list[Function]:
    """extern "C" functions; where there is none, host functions that launch a kernel and that none
    of the others calls. `pieces` are all of the file, `objects` types that no tensor is made of."""
    host = [f for f in defined if not (f.on_device or f.is_method or f.name == "main")]
    if exported := [f for f in host if f.c_linkage]:
        return exported
    able = [f for f in launching(defined, pieces) if is_plain(f, objects)]
    return outermost(able, pieces)


def launching(defined: Sequence[Function], pieces: Sequence[Piece]) -> list[Function]:
    """Host functions that launch a kernel or call one that does, by macros too."""
    found = {*_LAUNCHES, *(f.name for f in defined if "__global__" in f.returns)}
    said = _said(defined, pieces)
    host = [f for f in defined if not (f.on_device or f.is_method or f.name == "main")]
    return [f for f in host if said[f.name] & found]


def outermost(able: Sequence[Function], pieces: Sequence[Piece]) -> list[Function]:
    """Those that none of the others calls; one of each name, the longest."""
    longest = {one.name: one for one in sorted(able, key=lambda f: f.close - f.body)}
    said = _said(longest.values(), pieces)
    called = {n for n in longest for other in longest if other != n and n in said[other]}
    return [one for one in able if longest[one.name] is one and one.name not in called]


def _said(defined: Iterable[Function], pieces: Sequence[Piece]) -> dict[str, set[str]]:
    """The words in each body, and in the bodies of functions and macros that it names."""
    plain, defined = code(pieces), list(defined)
    words = {name: set(texts) for name, texts in macros_of(pieces).items()}
    words |= {f.name: set[str]() for f in defined}
    for function in defined:
        words[function.name] |= {p.text for p in plain[function.body : function.close]}
    grown = True
    while grown:
        grown = False
        for name, own in words.items():
            more = {word for one in own & words.keys() if one != name for word in words[one]}
            grown |= not more <= own
            own |= more
    return words


def value_type(parameter: Parameter) -> str:
    """What a parameter holds, without const and references."""
    return re.sub(r"^const |( const)?( ?&)?$", "", parameter.type)


def is_number(kind: str) -> bool:
    return any(p.fullmatch(kind) for p in (INTEGERS, _ENUM)) or kind in FLOATS or kind == "bool"


def is_pointer(parameter: Parameter) -> bool:
    """Whether it points to numbers, or to what only its function knows."""
    return parameter.type.count("*") == 1 and "&" not in parameter.type


def is_plain(function: Function, objects: Container[str] = ()) -> bool:
    """Whether it takes pointers, numbers and streams alone, and a pointer among them."""
    plain = [
        value_type(p) in STREAMS
        or is_number(value_type(p))
        or value_type(p) in function.type_parameters
        or (is_pointer(p) and element(p.type) not in objects)
        for p in function.parameters
    ]
    return all(plain) and any(is_pointer(p) for p in function.parameters)


def draft_of(
    function: Function,
    sources: Sequence[str],
    entry: str,
    shapes: Mapping[str, tuple[str, ...]],
    inner: str = "",
) -> Draft:
    """Read a launcher, which is in the first of the sources; others follow, with `inner` in them,
    the template that it calls. Raises BadSource where a parameter fits no contract."""
    source, plain = sources[0], code(pieces(sources[0]))
    letters = _letters(function)
    reading, alike = _LauncherParameters(), LikeNamed(sources, function)
    for parameter in function.parameters:
        _read(reading, parameter, function, alike, letters)
    _take_strides(reading)
    said = stated(function, source, plain)
    said.comments = {contract_name(name): shape for name, shape in said.comments.items()}
    said.comments |= {name: [shape] for name, shape in shapes.items()}
    for parameter in function.parameters:
        comments = alike.of(parameter.name).comments
        said.comments.setdefault(tensor_name(parameter.name), comments)
    integers = [n.name for n in reading.integers]
    layout = layout_of([t.name for t in reading.tensors], said, {}, {}, (), integers)
    if not all(layout.shapes.get(t.name) for t in reading.tensors):
        sizes = [name for name in integers if not is_no_size(name)]
        layout.dims = [*sizes, *(name for name in layout.dims if name not in sizes)]
    numbers = [n for n in reading.integers if n.name not in layout.dims]
    tensors = [_shaped(t, layout.shapes.get(t.name, ()), layout.doubts) for t in reading.tensors]
    tensors, variables, known = (
        of_codes(tensors, reading.codes)
        if set(reading.codes) - {"T"}
        else _variables(tensors, letters)
    )
    if USUAL in variables.values():
        told = usual_in(sources)
        variables = {v: told if d == USUAL else d for v, d in variables.items()}
    dims = tuple(layout.dims)
    draft = Draft(
        entry=entry,
        tensors=tuple(tensors),
        dims=dims,
        scalars=(*numbers, *reading.scalars),
        variables=variables,
        variables_known=known,
        origin=_origin(function),
        require=tuple(r for r in said.relations if set(re.findall(r"[a-z_]\w*", r)) <= set(dims)),
    )
    if _fits(draft, function):
        return replace(draft, entry=function.name)
    elements: dict[str, str] = {}
    everything = [p for text in sources for p in code(pieces(text))] if letters else []
    if made := list(_instances(inner or function.name, everything, letters)):
        variables = {v: tuple(dict.fromkeys(one[v][0] for one in made)) for v in letters.values()}
        elements = {dtype: word for one in made for dtype, word in one.values()}
        draft = replace(draft, variables={**draft.variables, **variables}, variables_known=True)
    return replace(draft, binding=_binding(function, letters, reading, elements))


def _instances(
    name: str, plain: Sequence[Piece], letters: Mapping[str, str]
) -> Iterator[dict[str, tuple[DTypeName, str]]]:
    """Dtypes and C++ types of the type variables in each `template void f<float, int>(...)`."""
    texts = [p.text for p in plain]
    for at, text in enumerate(texts):
        if text == name and "template" in texts[max(0, at - 8) : at] and texts[at + 1] == "<":
            end = texts.index("(", at)
            words = [spaced([p.text for p in part]) for part in split(plain[at + 2 : end - 1])]
            dtypes = [dtype_named(word) for word in words]
            if len(words) == len(letters) and all(dtypes):
                pairs = zip(letters.values(), dtypes, words, strict=True)
                yield {letter: (dtype, word) for letter, dtype, word in pairs if dtype}


def _binding(
    function: Function,
    letters: Mapping[str, str],
    reading: _LauncherParameters,
    elements: Mapping[str, str],
) -> dict[str, object]:
    called = "::".join([*function.namespaces, function.name])
    if letters:
        called += f"<{', '.join(letters.values())}>"
    other = {dtype: word for dtype, word in elements.items() if word not in _CUDAS}
    table: dict[str, object] = {"function": called, "args": reading.passed}
    if other:
        table["elements"] = other
    return table


def contract_name(name: str) -> str:
    """The name in small letters: numTokens is num_tokens."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def tensor_name(name: str) -> str:
    """The tensor that a pointer names: out_ptr is out."""
    return re.sub(r"(?<=.)_ptr$", "", contract_name(name))


def _origin(function: Function) -> str:
    linkage = 'extern "C" ' if function.c_linkage else ""
    return f"the {linkage}launcher {function.name}"


def _letters(function: Function) -> dict[str, str]:
    """A type variable for each template parameter. Raises BadSource where one is a value."""
    letters: dict[str, str] = {}
    for kind, name, default in function.template:
        if kind not in ("typename", "class"):
            if default:
                continue
            raise BadSource(
                function.line,
                f"{function.name} has the template parameter {kind} {name}: choose it with"
                f" the arguments that your program uses, --op '{function.name}<...>', or write a"
                " function that calls it, in a file for --launcher",
            )
        wanted = next((c for c, pattern in _NAMED.items() if pattern.search(name)), "U")
        wanted = wanted if letters else "T"
        letters[name] = next(c for c in (wanted, *"UVWXYZ") if c not in letters.values())
    return letters


def _read(
    reading: _LauncherParameters,
    parameter: Parameter,
    function: Function,
    alike: LikeNamed,
    letters: Mapping[str, str],
) -> None:
    kind, name = value_type(parameter), contract_name(parameter.name)
    if not name and INTEGERS.fullmatch(kind):
        reading.passed.append(0)  # nothing reads it: a dtype code that the launcher ignores
    elif kind in STREAMS:
        reading.passed.append({})
    elif "*" in kind or "[" in kind:
        reading.tensors.append(_tensor(parameter, function, alike, letters))
        reading.passed.append(reading.tensors[-1].name)
    elif INTEGERS.fullmatch(kind) and (found := re.fullmatch(r"(?:([a-z])_)?dtype", name)):
        reading.codes.append((found[1] or "t").upper())
        reading.passed.append({"code": reading.codes[-1]})
    elif INTEGERS.fullmatch(kind) and alike.is_block(parameter.name):
        doubt = "the threads of a block that callers ask for"
        reading.scalars.append(DraftScalar(name, "int64_t", parameter.default or "256", doubt))
        reading.passed.append(name)
    elif INTEGERS.fullmatch(kind):
        reading.integers.append(DraftScalar(name, "int64_t", parameter.default))
        reading.passed.append(name)
    elif _ENUM.fullmatch(kind):
        doubt = f"the number of the {kind} that callers pass"
        reading.scalars.append(DraftScalar(name, "int64_t", "0", doubt))
        reading.passed.append(name)
    elif is_number(kind) or kind in letters:
        scalar = "bool" if kind == "bool" else "float"
        reading.scalars.append(DraftScalar(name, scalar, parameter.default))
        reading.passed.append(name)
    else:
        raise BadSource(
            parameter.line,
            f"{function.name} takes '{parameter.type} {parameter.name}': a launcher takes pointers"
            " to numbers, integers, floats, bools and cudaStream_t",
        )


def _tensor(
    parameter: Parameter, function: Function, named: LikeNamed, letters: Mapping[str, str]
) -> Tensor:
    kind, alike = element(parameter.type), named.of(parameter.name)
    if parameter.type.count("*") > 1:
        raise BadSource(
            parameter.line,
            f"{function.name} takes '{parameter.type} {parameter.name}': a task's launcher"
            " cannot take pointers to pointers",
        )
    dtype = letters.get(kind) or dtype_named(kind)
    if kind == "void":
        dtypes = (dtype_named(word) for word in alike.elements)
        dtype = next((d for d in dtypes if d), "T")
    access, doubt = _access(parameter, alike)
    doubts = [doubt, "" if dtype else f"contracts do not support {kind}: it is passed as bytes"]
    name, told = tensor_name(parameter.name), tuple(one for one in doubts if one)
    return Tensor(name, access, dtype or "uint8", doubts=told)


def _access(parameter: Parameter, alike: Alike) -> tuple[str, str]:
    if re.search(r"\bconst\b", parameter.type) or alike.constant:
        return "read", ""
    return access_of(parameter.name)


def _take_strides(reading: _LauncherParameters) -> None:
    """Integers that are distances in a tensor: x_stride, stride_x, x_stride_0, ldx."""
    tensors = [t.name for t in reading.tensors]
    for place, tensor in enumerate(reading.tensors):
        own = [n for n in reading.integers if with_stride(n.name, tensors) == tensor.name]
        if not own:
            continue
        inner = bool(re.search(r"(_|^)(last|inner|d|col)$", own[-1].name)) and len(own) > 1
        strides = ("free",) * (len(own) - inner) + ("1",)
        strided = replace(tensor, strides=strides)
        doubt = f"is {own[-1].name} the stride of its axis {len(own) - 1}?"
        if len(own) > 1:
            strided = replace(strided, doubts=(*tensor.doubts, doubt))
        reading.tensors[place] = strided
        names: list[object] = [*strided.stride_names, *([1] * inner)]
        reading.integers = [n for n in reading.integers if n not in own]
        for integer, name in zip(own, names, strict=True):
            reading.passed = [name if one == integer.name else one for one in reading.passed]


def _shaped(tensor: Tensor, shape: tuple[str, ...], doubts: Mapping[str, str]) -> Tensor:
    own = [*tensor.doubts, doubts.get(tensor.name, "")]
    if not shape:
        own.append(GUESSED)
    strides = tensor.strides
    if shape and strides and len(strides) != len(shape):
        free = strides.count("free")
        dense = contiguous(shape)
        strides = ("free",) * min(free, len(shape) - 1) + dense[min(free, len(shape) - 1) :]
        own.append("are these its strides?")
    return replace(tensor, shape=shape, strides=strides, doubts=tuple(d for d in own if d))


def _variables(
    tensors: Sequence[Tensor], letters: Mapping[str, str]
) -> tuple[list[Tensor], dict[str, tuple[DTypeName, ...]], bool]:
    """T for void pointers and for the dtype of a plain launcher; a variable for each template
    parameter."""
    if not letters:
        found, variables, known = variables_of(tensors)
        return list(found), variables, known
    guessed: dict[str, tuple[DTypeName, ...]] = {"I": ("int32", "int64"), "Q": ("float8_e4m3fn",)}
    used = {t.dtype for t in tensors}
    named = [*letters.values(), *(["T"] if "T" in used - {*letters.values()} else [])]
    return list(tensors), {letter: guessed.get(letter, USUAL) for letter in named}, False


def _fits(draft: Draft, function: Function) -> bool:
    """Whether it is already the launcher that the contract makes."""
    returns = function.returns.split()[-1:] == ["cudaError_t"] and function.c_linkage
    wanted = types([plain(parameter) for parameter in draft.parameters])
    return returns and types(signature(function.parameters)) == wanted


def signature(parameters: Sequence[Parameter]) -> list[str]:
    """Types and names with single blanks: "const void* x"."""
    return [plain(f"{p.type} {p.name}") for p in parameters]


def types(parameters: Sequence[str]) -> list[str]:
    """Without names: the order of types is the interface."""
    return [parameter.rsplit(" ", 1)[0] for parameter in parameters]


def plain(text: str) -> str:
    """One way to write a parameter."""
    text = re.sub(r"\bstd::", "", text)
    text = re.sub(r"\s*__restrict(__)?\b", "", text)
    return re.sub(r"\s*\*\s*", "* ", text).strip()
