"""The draft of a task: what is read or guessed from a kernel, before it is written to files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.errors import BadInput
from astra_chat.tools.types import DTYPE_CODES, DTypeName

MARK = "COMPLETE"
"""Stands where a person has to look: `tasks check` lists what is left of it."""

COLUMNS = 100

DTYPES: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32")
C_TYPES: dict[DTypeName, str] = {
    "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"
}  # fmt: skip
ELEMENTS: dict[str, DTypeName | None] = {
    "float": "float32", "half": "float16", "__half": "float16", "at::Half": "float16",
    "c10::Half": "float16", "torch::Half": "float16", "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16", "at::BFloat16": "bfloat16", "c10::BFloat16": "bfloat16",
    "torch::BFloat16": "bfloat16", "void": None,
}  # fmt: skip
"""Element types of pointers that the contract knows; None where the pointer does not say."""
PER_COLUMN = ("weight", "weights", "gamma", "beta", "bias", "scale", "w", "b")
"""Names of tensors that usually have one element a column."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument. An empty shape is one that the source does not tell."""

    name: str
    written: bool
    dtype: DTypeName | None = None
    """None where the source leaves it to the case."""
    shape: tuple[str, ...] = ()
    strided: bool = False
    made: bool = False
    """The host function allocated it: nothing in it is read."""


@dataclass(frozen=True)
class Scalar:
    """A scalar argument; `value` is empty where the source has no default."""

    name: str
    type: str
    """float or int64_t."""
    value: str = ""


@dataclass(frozen=True)
class Draft:
    """A kernel in the words of a contract."""

    entry: str
    tensors: tuple[Tensor, ...]
    dims: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    dtypes: tuple[DTypeName, ...]
    dtypes_known: bool
    origin: str
    """The kind of source that the kernel came as, for messages."""
    baseline: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the launcher, as tools/task/launcher.py makes them."""
        pointers = [f"{'' if t.written else 'const '}void* {t.name}" for t in self.tensors]
        return (
            *pointers,
            *(f"int64_t {name}" for name in self.dims),
            *(f"int64_t {t.name}_stride" for t in self.tensors if t.strided),
            *(f"{scalar.type} {scalar.name}" for scalar in self.scalars),
            "int dtype",
            "cudaStream_t stream",
        )

    def arg_dtype(self, tensor: Tensor) -> str:
        """ "T" or "float32", as task.toml says it."""
        fixed = tensor.dtype == "float32" and self.dtypes != ("float32",)
        return "float32" if fixed else "T"

    def shape_of(self, tensor: Tensor) -> tuple[str, ...]:
        """Its shape, or the likeliest one: all dims, or the last for a weight."""
        if tensor.shape:
            return tensor.shape
        return self.dims[-1:] if tensor.name.lower() in PER_COLUMN else self.dims


def dtypes_of(tensors: Sequence[Tensor]) -> tuple[tuple[DTypeName, ...], bool]:
    """The dtypes of the cases that these arguments allow, and whether the source says so."""
    half = sorted({t.dtype for t in tensors if t.dtype in ("float16", "bfloat16")})
    if len(half) > 1:
        raise BadInput(
            "it takes float16 and bfloat16 tensors at once: a task's tensors have one dtype a"
            " case, and float32 beside it"
        )
    if half:
        return (half[0],), True
    if any(t.dtype is None for t in tensors):
        return DTYPES, False
    return ("float32",), True


def head(start: str, parameters: Sequence[str], end: str) -> list[str]:
    """Lines of a function's head, wrapped at the column of its bracket."""
    lines, margin = [f"{start}("], " " * (len(start) + 1)
    for index, parameter in enumerate(parameters):
        word = parameter + (", " if index + 1 < len(parameters) else f"){end}")
        if len(lines[-1]) + len(word.rstrip()) > COLUMNS and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(margin)
        lines[-1] += word
    return lines


def dtype_switch(draft: Draft, call: str) -> list[str]:
    """Lines that choose by the dtype code; `call` is one launch with {T} for the C type."""
    cases = [
        f"    case {DTYPE_CODES[name]}: {call.replace('{T}', C_TYPES[name])}"
        for name in sorted(draft.dtypes, key=DTYPE_CODES.__getitem__)
    ]
    return ["  switch (dtype) {", *cases, "    default: return cudaErrorInvalidValue;", "  }"]
