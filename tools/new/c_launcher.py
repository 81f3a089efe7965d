"""A kernel file with an extern "C" launcher, and the contract's launcher around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new.draft import ELEMENTS, MARK, Draft, Scalar, Tensor, dtypes_of, head
from astra_chat.tools.new.source import Function, Parameter
from astra_chat.tools.types import DTYPE_CODES

STREAMS = ("cudaStream_t", "CUstream", "CUstream_st *", "cudaStream_t *")
INTEGERS = re.compile(
    r"(const )?((unsigned|signed) )?(int|long|long long|unsigned|short|(std::)?u?int(32|64)_t"
    r"|(std::)?size_t|ptrdiff_t)"
)
FLOATS = ("float", "double", "const float", "const double")
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|struct)\b|[*&\[\]]")


@dataclass
class _Reading:
    """What the parameters gave so far; `passed` are the words that each gets in the call."""

    tensors: list[Tensor] = field(default_factory=list)
    dims: list[str] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    stream: bool = False
    dtype: bool = False


def draft_of(function: Function, source: str, entry: str) -> Draft:
    """Read an extern "C" launcher. Raises BadInput where a parameter fits no contract."""
    reading = _Reading()
    for parameter in function.parameters:
        _read(reading, parameter, function)
    dtypes, known = dtypes_of(reading.tensors)
    draft = Draft(
        entry=entry, tensors=tuple(reading.tensors), dims=tuple(reading.dims),
        scalars=tuple(reading.scalars), dtypes=dtypes, dtypes_known=known,
        origin=f'the extern "C" launcher {function.name}',
    )  # fmt: skip
    if _fits(draft, function):
        return replace(draft, entry=function.name, baseline=source)
    return replace(draft, baseline=f"{source.rstrip()}\n\n{_adapter(draft, function, reading)}")


def _read(reading: _Reading, parameter: Parameter, function: Function) -> None:
    kind, name = parameter.type, parameter.name
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) and kind not in STREAMS:
        raise BadInput(
            f"line {function.line}: the parameter '{kind} {name}' of {function.name} needs"
            " a name in small letters: names in task.toml are small"
        )
    if kind in STREAMS:
        reading.stream = True
        reading.passed.append("stream")
    elif "*" in kind or "[" in kind:
        reading.tensors.append(_tensor(parameter, function))
        reading.passed.append(f"static_cast<{kind.replace(' *', '*')}>({name})")
        if "restrict" in kind:
            plain = re.sub(r"\s*__restrict(__)?", "", kind).replace(" *", "*")
            reading.passed[-1] = f"static_cast<{plain}>({name})"
    elif INTEGERS.fullmatch(kind) and name == "dtype":
        reading.dtype = True
        reading.passed.append("dtype")
    elif INTEGERS.fullmatch(kind):
        _read_integer(reading, name)
        reading.passed.append(f"static_cast<{kind.removeprefix('const ')}>({name})")
    elif kind in FLOATS:
        reading.scalars.append(Scalar(name, "float", parameter.default))
        reading.passed.append(name)
    elif kind == "bool":
        reading.scalars.append(Scalar(name, "int64_t", parameter.default))
        reading.passed.append(f"{name} != 0")
    else:
        raise BadInput(
            f"line {function.line}: {function.name} takes '{kind} {name}': a launcher takes"
            " pointers to float, half or bfloat16, integers, float and cudaStream_t"
        )


def _read_integer(reading: _Reading, name: str) -> None:
    """A dim, or the distance of the rows of a tensor that came before."""
    for index, tensor in enumerate(reading.tensors):
        if name == f"{tensor.name}_stride":
            reading.tensors[index] = replace(tensor, strided=True)
            return
    reading.dims.append(name)


def _tensor(parameter: Parameter, function: Function) -> Tensor:
    element = " ".join(_QUALIFIERS.sub(" ", parameter.type).split())
    if element not in ELEMENTS or parameter.type.count("*") > 1:
        raise BadInput(
            f"line {function.line}: {function.name} takes '{parameter.type} {parameter.name}': the"
            " tensors of a task are float32, float16 or bfloat16 so far"
        )
    written = re.search(r"\bconst\b", parameter.type) is None
    return Tensor(parameter.name, written, ELEMENTS[element])


def _fits(draft: Draft, function: Function) -> bool:
    """Whether it is already the launcher that the contract makes."""
    returns = function.returns.split()[-1:] == ["cudaError_t"]
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


def _adapter(draft: Draft, function: Function, reading: _Reading) -> str:
    lines = ["// The launcher of the task's contract: its parameters follow from task.toml."]
    if not reading.stream:
        lines += [
            f"// {MARK}: {function.name} takes no stream: launch on one, pass `stream`.",
        ]
    lines += head(f'extern "C" cudaError_t {draft.entry}', draft.parameters, " {")
    if not reading.dtype and len(draft.dtypes) == 1:
        code = DTYPE_CODES[draft.dtypes[0]]
        lines.append(f"  if (dtype != {code}) return cudaErrorInvalidValue;")
    returns = function.returns.split()[-1]
    if returns == "cudaError_t":
        lines += head(f"  return {function.name}", reading.passed, ";")
    else:
        test = "  " if returns == "void" else "  const auto failed = "
        lines += head(f"{test}{function.name}", reading.passed, ";")
        if returns != "void":
            lines.append("  if (failed != 0) return cudaErrorUnknown;")
        lines.append("  return cudaGetLastError();")
    return "\n".join([*lines, "}", ""])
