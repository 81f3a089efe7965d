"""A kernel file with a launcher in plain C++, and the contract's launcher around it.

A launcher is an extern "C" function, or else a host function that launches a kernel and takes
nothing but pointers, numbers and a stream; it may be a template over element types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_chat.tools.new.accesses import Uses, element
from astra_chat.tools.new.draft import (
    HEADERS,
    MARK,
    USUAL,
    Draft,
    DraftScalar,
    Tensor,
    access_of,
    dtype_named,
    dtype_switch,
    head,
    is_no_size,
    pointer,
    usual_in,
    variables_of,
)
from astra_chat.tools.new.layout import GUESSED, contiguous, layout_of, with_stride
from astra_chat.tools.new.pointer_uses import Tracer
from astra_chat.tools.new.source import BadSource, Function, Parameter, Piece, functions
from astra_chat.tools.new.stated import comment_shapes, stated
from astra_chat.tools.new.type_variables import of_codes
from astra_chat.tools.types import DTYPE_CODES, DTypeName

STREAMS = ("cudaStream_t", "CUstream", "CUstream_st *", "cudaStream_t *")
INTEGERS = re.compile(
    r"(const )?((unsigned|signed) )?(int|long|long long|unsigned|short|(std::)?u?int(32|64)_t"
    r"|(std::)?size_t|ptrdiff_t)"
)
FLOATS = ("float", "double", "const float", "const double")
_LAUNCHES = ("<<<", "cudaLaunchKernel", "cudaLaunchKernelEx", "cudaLaunchKernelExC")


@dataclass
class _LauncherParameters:
    """What the parameters gave so far; `passed` are the words that each gets in the call."""

    tensors: list[Tensor] = field(default_factory=list)
    integers: list[DraftScalar] = field(default_factory=list)
    scalars: list[DraftScalar] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    stream: bool = False
    dtype: bool = False
    codes: list[str] = field(default_factory=list)
    """Type variables of which the launcher takes a dtype code."""


def launchers(defined: Sequence[Function], pieces: Sequence[Piece]) -> list[Function]:
    """extern "C" functions; where there is none, host functions that launch a kernel and take plain
    parameters."""
    host = [f for f in defined if not (f.on_device or f.is_method or f.name == "main")]
    if exported := [f for f in host if f.c_linkage]:
        return exported
    words = {f.name: {p.text for p in pieces[f.body : f.close]} for f in host}
    launching = {f.name for f in host if _launches(f, pieces)}
    for _ in host:
        launching |= {name for name, called in words.items() if called & launching}
    outer = [f for f in host if not any(f.name in w for n, w in words.items() if n != f.name)]
    return [f for f in outer if f.name in launching and _is_plain(f)]


def _launches(function: Function, pieces: Sequence[Piece]) -> bool:
    return any(pieces[i].text in _LAUNCHES for i in range(function.body, function.close))


def _is_plain(function: Function) -> bool:
    kinds = [p.type.removeprefix("const ") for p in function.parameters]
    plain = [
        kind in STREAMS
        or INTEGERS.fullmatch(kind)
        or kind in FLOATS
        or kind == "bool"
        or (kind.count("*") == 1 and "&" not in kind)
        for kind in kinds
    ]
    return all(plain) and any("*" in kind for kind in kinds)


def draft_of(
    function: Function,
    source: str,
    pieces: Sequence[Piece],
    entry: str,
    headers: Mapping[str, str],
    shapes: Mapping[str, tuple[str, ...]],
) -> Draft:
    """Read a launcher. Raises BadSource where a parameter fits no contract."""
    letters = _letters(function)
    reading, tracer = _LauncherParameters(), Tracer([source, *headers.values()])
    for parameter in function.parameters:
        _read(reading, parameter, function, tracer, letters)
    _take_strides(reading)
    said = stated(function, source, pieces)
    said.comments |= {name: [shape] for name, shape in shapes.items()}
    for tensor in reading.tensors:
        used = tracer.of(function, tensor.name)
        said.comments.setdefault(tensor.name, list(_kernel_comments(used, source, pieces)))
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
        told = usual_in([source, *headers.values()])
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
        return replace(draft, entry=function.name, baseline=source)
    adapter = _adapter(draft, function, reading)
    lacking = [h for name, h in HEADERS.items() if name in adapter and h not in source]
    includes = "".join(f"#include {header}\n" for header in lacking)
    return replace(draft, baseline=f"{source.rstrip()}\n\n{includes}{adapter}")


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
                f"{function.name} is a template over the value {kind} {name}: add a launcher that"
                " calls it with the values that your program uses",
            )
        index = re.search(r"(?i)id|index", name) is not None
        wanted = "T" if not letters else "I" if index else "Q"
        letters[name] = next(c for c in (wanted, *"UVWXYZ") if c not in letters.values())
    return letters


def _read(
    reading: _LauncherParameters,
    parameter: Parameter,
    function: Function,
    tracer: Tracer,
    letters: Mapping[str, str],
) -> None:
    kind, name = parameter.type, parameter.name
    if not name and INTEGERS.fullmatch(kind):
        reading.dtype = True  # nothing reads it: a dtype code that the launcher ignores
        reading.passed.append("0")
        return
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) and kind not in STREAMS:
        raise BadSource(
            parameter.line,
            f"the parameter '{kind} {name}' of {function.name} needs a name in small letters: names"
            " in task.toml are small",
        )
    if kind in STREAMS:
        reading.stream = True
        reading.passed.append("stream")
    elif "*" in kind or "[" in kind:
        reading.tensors.append(_tensor(parameter, function, tracer, letters))
        reading.passed.append(_cast(kind, reading.tensors[-1], letters))
    elif INTEGERS.fullmatch(kind) and (code := re.fullmatch(r"(?:([a-z])_)?dtype", name)):
        reading.dtype = True
        reading.codes.append((code[1] or "t").upper())
        reading.passed.append(name)
    elif INTEGERS.fullmatch(kind):
        reading.integers.append(DraftScalar(name, "int64_t", parameter.default))
        reading.passed.append(f"static_cast<{kind.removeprefix('const ')}>({name})")
    elif kind in FLOATS or kind.removeprefix("const ") == "bool":
        scalar = "float" if kind in FLOATS else "bool"
        reading.scalars.append(DraftScalar(name, scalar, parameter.default))
        reading.passed.append(name)
    else:
        raise BadSource(
            parameter.line,
            f"{function.name} takes '{kind} {name}': a launcher takes pointers to numbers,"
            " integers, floats, bools and cudaStream_t",
        )


def _cast(kind: str, tensor: Tensor, letters: Mapping[str, str]) -> str:
    """The contract's void pointer as what the launcher takes."""
    name = element(kind)
    if name == "void":
        return f"const_cast<void*>({tensor.name})" if tensor.loose else tensor.name
    return pointer(tensor, f"{{{letters[name]}}}" if name in letters else name)


def _tensor(
    parameter: Parameter, function: Function, tracer: Tracer, letters: Mapping[str, str]
) -> Tensor:
    kind, uses = element(parameter.type), tracer.of(function, parameter.name)
    if parameter.type.count("*") > 1:
        raise BadSource(
            parameter.line,
            f"{function.name} takes '{parameter.type} {parameter.name}': a task's launcher takes no"
            " pointers to pointers",
        )
    dtype = letters.get(kind) or dtype_named(kind)
    if kind == "void":
        named = (dtype_named(word) for word in uses.elements)
        dtype = next((d for d in named if d), "T")
    if dtype is None:
        raise BadSource(
            parameter.line,
            f"{function.name} takes '{parameter.type} {parameter.name}': the elements of a task's"
            " tensors are numbers of 8, 16, 32 or 64 bits",
        )
    access, doubt = _access(parameter, uses)
    loose = access == "read" and not re.search(r"\bconst\b", parameter.type)
    return Tensor(parameter.name, access, dtype, loose=loose, doubts=(doubt,) if doubt else ())


def _access(parameter: Parameter, uses: Uses) -> tuple[str, str]:
    if re.search(r"\bconst\b", parameter.type):
        return "read", ""
    if uses.unclear or not (uses.reads or uses.writes):
        return "write", '"readwrite" if the kernel reads it too'
    return access_of(parameter.name, uses)


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
        names = [*strided.stride_names, *(["1"] * inner)]
        reading.integers = [n for n in reading.integers if n not in own]
        for integer, name in zip(own, names, strict=True):
            reading.passed = [
                re.sub(rf"\({integer.name}\)$", f"({name})", word) for word in reading.passed
            ]


def _kernel_comments(uses: Uses, source: str, pieces: Sequence[Piece]) -> Iterator[tuple[str, ...]]:
    """Shapes in the comments of kernels that get the tensor."""
    by_name = {f.name: f for f in functions(pieces)}
    for function, parameter in uses.parameters:
        if function in by_name:
            yield from comment_shapes(by_name[function], source).get(parameter, ())


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
    parameter that a tensor has."""
    used = {t.dtype for t in tensors}
    named = [letter for letter in letters.values() if letter in used]
    if not named:
        found, variables, known = variables_of(tensors)
        return list(found), variables, known
    guessed: dict[str, tuple[DTypeName, ...]] = {"I": ("int32", "int64"), "Q": ("float8_e4m3fn",)}
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


def _adapter(draft: Draft, function: Function, reading: _LauncherParameters) -> str:
    lines = ["// The launcher of the task's contract: its parameters follow from task.toml."]
    if not reading.stream:
        lines += [f"// {MARK}: {function.name} takes no stream: launch on one, pass `stream`."]
    letters = _letters(function)
    if letters and not draft.variables_known:
        lines += [f"// {MARK}: the dtypes that {function.name} takes, here and in task.toml."]
    lines += head(f'extern "C" cudaError_t {draft.entry}', draft.parameters, " {")
    called = "::".join([*function.namespaces, function.name])
    types_given = ", ".join(f"{{{letter}}}" for letter in letters.values())
    if len(function.template) == len(letters) and types_given:
        called += f"<{types_given}>"
    returns = function.returns.split()[-1]
    call = f"{called}({', '.join(reading.passed)})"
    if letters and draft.variables:
        return "\n".join([*lines, *dtype_switch(draft, _statement(call, returns)), "}", ""])
    if not reading.dtype and len(draft.dtypes) == 1:
        code = DTYPE_CODES[draft.dtypes[0]]
        lines.append(f"  if (dtype != {code}) return cudaErrorInvalidValue;")
    if returns == "cudaError_t":
        lines += head(f"  return {called}", reading.passed, ";")
    else:
        test = "  " if returns == "void" else "  const auto failed = "
        lines += head(f"{test}{called}", reading.passed, ";")
        lines += ["  if (failed != 0) return cudaErrorUnknown;"] * (returns != "void")
        lines.append("  return cudaGetLastError();")
    return "\n".join([*lines, "}", ""])


def _statement(call: str, returns: str) -> str:
    """The call as the last statement of a launcher that returns cudaError_t."""
    if returns == "cudaError_t":
        return f"return {call};"
    if returns == "void":
        return f"{call}; return cudaGetLastError();"
    return f"return {call} != 0 ? cudaErrorUnknown : cudaGetLastError();"
