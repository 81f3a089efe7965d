"""The draft of a task: what is read or guessed from a kernel, before it is written to files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.types import DTYPES, DTypeName, is_float

MARK = "COMPLETE"
"""Stands where a person has to look: `tasks check` lists what is left of it."""

MOST_AXES = 4
"""Most axes of a shape that nothing states: of more dims the first and the last are taken."""

USUAL: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32")
"""Dtypes of a type variable where the source does not tell them."""
_USUAL_NAMED: dict[DTypeName, re.Pattern[str]] = {
    "float16": re.compile(r"\b(__|nv_)half\b|<\s*half\s*[,>]|\bhalf\*"),
    "bfloat16": re.compile(r"\b(__)?nv_bfloat16\b"),
    "float32": re.compile(r"<\s*float\s*[,>]|\bfloat\s*\*"),
}
"""How a source names an element type; "half" alone may be a number."""
ELEMENTS: dict[str, DTypeName] = {
    "float": "float32", "half": "float16", "__half": "float16", "nv_half": "float16",
    "Half": "float16", "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16",
    "BFloat16": "bfloat16", "__nv_fp8_e4m3": "float8_e4m3fn", "Float8_e4m3fn": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2", "Float8_e5m2": "float8_e5m2",
    "__nv_fp8_e8m0": "float8_e8m0fnu", "Float8_e8m0fnu": "float8_e8m0fnu",
    "__nv_fp8_storage_t": "float8_e4m3fn", "int8_t": "int8", "signed char": "int8",
    "uint8_t": "uint8", "unsigned char": "uint8", "int": "int32", "int32_t": "int32",
    "uint32_t": "int32", "unsigned": "int32", "unsigned int": "int32", "int64_t": "int64",
    "long": "int64", "long long": "int64", "uint64_t": "int64", "unsigned long long": "int64",
    "bool": "bool", "char": "int8", "float2": "float32", "float4": "float32", "half2": "float16",
    "__half2": "float16", "__nv_bfloat162": "bfloat16", "nv_bfloat162": "bfloat16",
    "int2": "int32", "int4": "int32", "uint2": "int32", "uint4": "int32", "char4": "int8",
}  # fmt: skip
"""Element types of pointers that the contract knows, without their namespaces."""
PER_COLUMN = ("weight", "weights", "gamma", "beta", "bias", "scale", "w", "b")
"""Names of tensors that usually have one element a column."""
_INDEX_WORDS = re.compile(
    r"(^|_)(pos|positions?|slots?|slot_mapping|ind(ex|ices|ptr)?|idx|ids?|"
    r"tables?|pages?|maps?|mapping)($|_)"
)


KEPT = re.compile(r"cache|buffer|pool|pages|state|table")
_RESULT = re.compile(
    r"out|dst|result|merged|sorted|codes|scales|ind(ex|ices)|ids|_[qs]$|^[yoc]$|^d(x|q|k|v|bias|weight)_?$"
)
_NO_SIZE = re.compile(r"(\w+_)?(seed|offset|mode|layer|rank|version|id|flag|step)s?(_\w+)?")


def is_index_name(name: str) -> bool:
    """Whether what is called so holds places in another tensor."""
    return bool(_INDEX_WORDS.search(name))


def is_no_size(name: str) -> bool:
    """Whether an integer of this name is a number rather than an extent."""
    return _NO_SIZE.fullmatch(name) is not None


def access_of(name: str) -> tuple[str, str]:
    """How a kernel likely uses what it takes as a pointer to what is not const; and a doubt."""
    if not KEPT.search(name) and _RESULT.search(name):
        return "write", '"readwrite" if the kernel reads it too'
    return "readwrite", '"write" if every element of it is written, and none read'


def dtype_named(word: str) -> DTypeName | None:
    """The dtype of a C++ type: "c10::Half" is float16; None of others."""
    return ELEMENTS.get(word.rsplit("::", 1)[-1].strip())


@dataclass(frozen=True)
class Tensor:
    """A tensor argument. An empty shape is one that the source does not tell."""

    name: str
    access: str
    """read, write or readwrite."""
    dtype: str = "T"
    """A dtype, or a type variable."""
    shape: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    """Stride of each axis, an expression or "free"; empty: contiguous."""
    optional: bool = False
    doubts: tuple[str, ...] = ()
    """What was guessed, for the user to confirm."""

    @property
    def written(self) -> bool:
        return self.access != "read"

    @property
    def stride_names(self) -> tuple[str, ...]:
        """The launcher's parameters for strides that callers choose."""
        axes = [axis for axis, stride in enumerate(self.strides) if stride == "free"]
        if len(axes) == 1:
            return (f"{self.name}_stride",)
        return tuple(f"{self.name}_stride_{axis}" for axis in axes)


@dataclass(frozen=True)
class DraftScalar:
    """A scalar argument; `value` is empty where the source has no default."""

    name: str
    type: str
    """float, int64_t or bool."""
    value: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Draft:
    """A kernel in the words of a contract."""

    entry: str
    tensors: tuple[Tensor, ...]
    dims: tuple[str, ...]
    scalars: tuple[DraftScalar, ...]
    variables: Mapping[str, tuple[DTypeName, ...]]
    """Type variables in order, each with its dtypes."""
    variables_known: bool
    origin: str
    """The kind of source that the kernel came as, for messages."""
    multiples: Mapping[str, int] = field(default_factory=dict)
    """Divisors that the source demands of extents, by dim."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """How the source computes an extent, by dim, where that is no size."""
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """All legal extents of a dim, by its name, where they are known."""
    require: tuple[str, ...] = ()
    summary: str = ""
    baseline: str = ""
    launcher: str = ""
    """Text of launcher.cu; "": the task has none."""
    binding: Mapping[str, object] = field(default_factory=dict)
    """The table [binding] of task.toml; empty: baseline.cu defines the launcher."""
    makes_tensors: bool = False
    """The function takes tensors, so that it may allocate others."""
    unbound: tuple[str, ...] = ()
    """What is doubtful of it, for the user to confirm."""
    build_timeout_s: int = 0
    """Limit of a build where the usual one is too near; 0: the usual one."""
    reference: str = ""
    """A reference.py that came with the kernel; empty: it is written from the draft."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Declarations of the launcher's parameters, as tools/task/launcher.py makes them."""
        pointers = [f"{'' if t.written else 'const '}void* {t.name}" for t in self.tensors]
        return (
            *pointers,
            *(f"int64_t {name}" for name in self.dims),
            *(f"int64_t {name}" for t in self.tensors for name in t.stride_names),
            *(f"{scalar.type} {scalar.name}" for scalar in self.scalars),
            *(f"int {self.code_name(variable)}" for variable in self.variables),
            "cudaStream_t stream",
        )

    @property
    def types(self) -> list[dict[str, DTypeName]]:
        """Each combination of the variables' dtypes; one without any where there is no variable."""
        combined = itertools.product(*self.variables.values())
        return [dict(zip(self.variables, dtypes, strict=True)) for dtypes in combined]

    @property
    def dtypes(self) -> tuple[DTypeName, ...]:
        """Dtypes of the first type variable; empty where there is none."""
        return next(iter(self.variables.values()), ())

    def code_name(self, variable: str) -> str:
        """The launcher's parameter for the dtype that a variable stands for."""
        return "dtype" if variable == "T" else f"{variable.lower()}_dtype"

    def possible(self, tensor: Tensor) -> tuple[str, ...]:
        """The dtypes that an argument may have."""
        return self.variables.get(tensor.dtype, (tensor.dtype,))

    def is_index(self, tensor: Tensor) -> bool:
        """Whether it holds places in another tensor, by its dtype and name."""
        wide = {"int32", "int64"} & set(self.possible(tensor))
        return bool(wide) and not tensor.written and is_index_name(tensor.name)

    @property
    def toleranced(self) -> list[str]:
        """Float dtypes that results may have, in the order of the codes."""
        written = {d for t in self.tensors if t.written for d in self.possible(t)}
        named = written | set(self.dtypes)
        return [d for d in DTYPES if d in named and is_float(d)]

    def shape_of(self, tensor: Tensor) -> tuple[str, ...]:
        """Its shape, or the likeliest one: the first dim for indices, the last for a weight, two
        for a tensor with a stride, else all, or two where these are many."""
        if tensor.shape:
            return tensor.shape
        if tensor.strides:
            rank = len(tensor.strides)
            known = (*self.dims[:-1][: rank - 1], *self.dims[-1:])
            return (*known[:-1], *("1",) * (rank - len(known)), *known[-1:])
        if self.is_index(tensor):
            return self.dims[:1]
        if tensor.name.lower() in PER_COLUMN:
            return self.dims[-1:]
        return self.dims if len(self.dims) <= MOST_AXES else (self.dims[0], self.dims[-1])


def variables_of(
    tensors: Sequence[Tensor],
) -> tuple[tuple[Tensor, ...], dict[str, tuple[DTypeName, ...]], bool]:
    """The tensors, the type variables of their dtypes, and whether the source tells those.

    T stands for the 16-bit dtype, or for float32 where there is none; float32 beside a 16-bit dtype
    stays what it is, and so does every other dtype.
    """
    dtypes = {t.dtype for t in tensors}
    if "T" in dtypes:
        return tuple(tensors), {"T": USUAL}, False
    main = next((d for d in ("float16", "bfloat16", "float32") if d in dtypes), None)
    if main is None:
        return tuple(tensors), {}, True
    named = (t if t.dtype != main else _with_dtype(t, "T") for t in tensors)
    return tuple(named), {"T": (main,)}, True


def usual_in(sources: Iterable[str]) -> tuple[DTypeName, ...]:
    """Dtypes of USUAL that these sources name, where a 16-bit one is among them; else all."""
    text = "\n".join(sources)
    named = tuple(dtype for dtype in USUAL if _USUAL_NAMED[dtype].search(text))
    return named if set(named) - {"float32"} else USUAL


def _with_dtype(tensor: Tensor, dtype: str) -> Tensor:
    return Tensor(**{**tensor.__dict__, "dtype": dtype})
