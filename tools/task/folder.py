"""A task folder as values (task.toml): the contract of a kernel, its cases and its tolerances.

The folder holds task.toml, baseline.cu, reference.py and, where there are any, headers, paper.cu
and script/.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from astra_chat.tools.errors import BadInput
from astra_chat.tools.task.contract import Arg, Dim, Extent, Name, Scalar, Tolerance, product
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, Value, ValueFamily, sha256_of

BUILTIN = Path(__file__).resolve().parents[2] / "sglang_kernels"
REQUIRED_FILES = ("task.toml", "baseline.cu", "reference.py")

HEADER_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\.(cuh|cu|h|hpp|inl)$"
HeaderName = Annotated[str, Field(pattern=HEADER_NAME)]

MAX_BYTES = 2**26
"""Of one case that a tester may ask for."""


class Task(Value):
    """The contract of a kernel. Every field but `folder` stands in task.toml."""

    model_config = ConfigDict(ignored_types=(cached_property,))

    schema_version: Literal[1] = Field(alias="schema")
    name: Name
    summary: str
    entry: Name
    """The exported launcher."""
    args: tuple[Arg, ...] = Field(min_length=1)
    scalars: tuple[Scalar, ...] = ()
    dims: dict[Name, Dim] = Field(min_length=1)
    dtypes: tuple[DTypeName, ...] = Field(min_length=1)
    tolerance: dict[DTypeName, Tolerance]
    oracle_ratio: float = Field(default=2.0, ge=1)
    """A candidate's error norm, and its share of 16-bit results off the nearest value, may be this
    many times the baseline's own (tools/check/error_norms.py)."""
    tensor_float32: bool = False
    """Grants what the audit refuses of float32 contracts: tensor cores, TF32, 16-bit arithmetic."""
    flops: Extent
    """Operations of one call, for the physical limit: "8*tokens*d"."""
    flags: tuple[str, ...]
    """nvcc flags of baseline and candidates alike: upstream's."""
    headers: tuple[HeaderName, ...] = ()
    """Files of the folder that baseline and candidates may include, by name in quotes."""
    check: tuple[Case, ...] = Field(min_length=1)
    bench: tuple[tuple[Case, float], ...] = Field(min_length=1)
    """Cases and weights."""
    demo: tuple[tuple[Case, float], ...] = Field(min_length=1)
    """The short list that is timed where the device is the virtual GPU."""
    provenance: dict[str, str]
    folder: Path

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        if missing := set(self.dtypes) - set(self.tolerance):
            raise ValueError(f"tolerance is missing for {', '.join(sorted(missing))}")
        for extent in (self.flops, *(extent for arg in self.args for extent in arg.shape)):
            for factor in extent.split("*"):
                if not factor.isdecimal() and factor not in self.dims:
                    raise ValueError(f"'{factor}' in '{extent}' is neither a dim nor a number")
        if wide := [arg.name for arg in self.args if arg.strided and len(arg.shape) != 2]:
            raise ValueError(f"'{wide[0]}' is strided, so it must have two dims")
        if lacking := [name for name in self.headers if not (self.folder / name).is_file()]:
            raise ValueError(f"headers: {lacking[0]} is not in the task's folder")
        if not any(arg.written for arg in self.args):
            raise ValueError("no argument is written: nothing could be checked")
        for case in (*self.check, *(c for c, _ in (*self.bench, *self.demo))):
            self.require_legal(case)
        return self

    @cached_property
    def id(self) -> str:
        """sha256 over the folder's own files: two runs with equal ids judge by the same rules."""
        return sha256_of("".join(f"{n}\0{sha256_of(t)}\0" for n, t in sorted(self.files().items())))

    @property
    def baseline(self) -> str:
        return (self.folder / "baseline.cu").read_text()

    def header_texts(self) -> dict[str, str]:
        """Text of every header, by name."""
        return {name: (self.folder / name).read_text() for name in self.headers}

    def files(self) -> dict[str, str]:
        """Text of every file that someone else needs to judge again, by name in the folder."""
        paths = [p for p in self.folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        return {p.relative_to(self.folder).as_posix(): p.read_text() for p in sorted(paths)}

    def require_legal(self, case: Case) -> None:
        """Raise ValueError unless the case lies in the contract's domain."""
        if case.dtype not in self.dtypes:
            raise ValueError(f"dtype {case.dtype} is not one of {', '.join(self.dtypes)}")
        if set(case.dims) != set(self.dims):
            raise ValueError(f"dims {sorted(case.dims)} are not {sorted(self.dims)}")
        strided = {arg.name for arg in self.args if arg.strided}
        if case.pad and not strided:
            raise ValueError("pad is for tasks with strided arguments")
        if not set(case.pads) <= strided or any(pad < 0 for pad in case.pads.values()):
            raise ValueError(f"pads are 0 or more, for strided arguments: {sorted(strided)}")
        self._require_legal_by_name(case)
        for name, dim in self.dims.items():
            extent, step = case.dims[name], dim.step(case.dtype)
            if not dim.min <= extent <= dim.max or extent % step:
                raise ValueError(
                    f"{name} = {extent} is outside {dim.min} to {dim.max} in steps of {step}"
                    f" for {case.dtype}"
                )

    def _require_legal_by_name(self, case: Case) -> None:
        """Raise ValueError unless what a case says of single arguments and scalars is legal."""
        free = {s.name: s for s in self.scalars if s.varies}
        if not set(case.scalars) <= set(free):
            raise ValueError(f"only these scalars vary: {sorted(free)}")
        for name, value in case.scalars.items():
            if not free[name].allows(value):
                raise ValueError(f"{name} = {value:g} is outside its range")
        if not set(case.offsets) <= {arg.name for arg in self.args}:
            raise ValueError("offsets are for arguments")
        if not set(case.families) <= (own := {a.name for a in self.args if a.largest and a.read}):
            raise ValueError(f"only these arguments have families of their own: {sorted(own)}")

    def require_small(self, case: Case) -> None:
        """Raise ValueError if its buffers take more than MAX_BYTES, paddings included: legal, but
        a model that asks for it would fill the machine's memory."""
        if (size := self.buffer_bytes(case)) > MAX_BYTES:
            raise ValueError(f"{size:,} bytes are too many for a check: at most {MAX_BYTES:,}")

    def buffer_bytes(self, case: Case) -> int:
        """Bytes of its buffers, paddings included."""
        return sum(
            math.prod(arg.shape_of(case)[:-1])
            * arg.stride_of(case)
            * ITEM_BYTES[arg.dtype_of(case)]
            for arg in self.args
        )

    def least_bytes(self, case: Case) -> int:
        """Bytes that any kernel must move: each argument read once, each written once."""
        return sum(a.bytes_of(case) * (int(a.read) + int(a.written)) for a in self.args)

    def flops_of(self, case: Case) -> int:
        return product(self.flops, case.dims)


def task_names() -> list[str]:
    """Names of the tasks that ship with Astra."""
    return sorted(p.parent.name for p in BUILTIN.glob("*/task.toml"))


def find_task(name_or_folder: str) -> Task:
    """Load a shipped task by name, or any task folder by path. Raises BadInput."""
    if name_or_folder in task_names():
        return load_task(BUILTIN / name_or_folder)
    folder = Path(name_or_folder)
    if folder.is_dir():
        return load_task(folder)
    raise BadInput(
        f"no task '{name_or_folder}': it is neither a folder nor one of {', '.join(task_names())}"
    )


def load_task(folder: Path) -> Task:
    """Read a task folder. Raises BadInput naming file, line and field of what is wrong."""
    for name in REQUIRED_FILES:
        if not (folder / name).is_file():
            raise BadInput(f"{folder} is not a task folder: {name} is missing")
    path = folder / "task.toml"
    text = path.read_text()
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None
    dims = raw.get("dims", {})
    for section in ("check", "bench", "demo"):
        rows = raw.get(section, [])
        if not isinstance(rows, list) or not isinstance(dims, dict):
            raise BadInput(f"{path}: dims is a table, {section} a list")
        raw[section] = [_weighted(row, list(dims), section) for row in rows]
    try:
        return Task.model_validate({**raw, "folder": folder.resolve()})
    except ValidationError as error:
        raise BadInput(_first_problem(path, text, error)) from None


def case_fields(row: dict[str, Any], dims: Iterable[str]) -> dict[str, Any]:
    """A flat row of task.toml, {tokens, d, dtype, ...}, as the fields of a Case."""
    fields: dict[str, Any] = {"dims": {d: row[d] for d in dims if d in row}}
    return fields | {k: v for k, v in row.items() if k not in fields["dims"] and k != "weight"}


def _weighted(row: Any, dims: list[str], section: str) -> Any:
    """A row of a list of cases; those that are timed have a weight."""
    if not isinstance(row, dict):
        return row
    fields = case_fields(row, dims)
    return fields if section == "check" else (fields, row.get("weight", 1.0))


def _first_problem(path: Path, text: str, error: ValidationError) -> str:
    first = error.errors()[0]
    location = [part for part in first["loc"] if part != "folder"]
    field = ".".join(str(part) for part in location) or "task"
    reason = first["msg"].removeprefix("Value error, ")
    line = _line_of(text, location)
    return f"{path}{f', line {line}' if line else ''}: {field}: {reason}"


def _line_of(text: str, location: list[Any]) -> int | None:
    """Line of a field in TOML text: follow its names, counting list entries; best effort."""
    lines = text.splitlines()
    at: int | None = None
    for position, part in enumerate(location):
        start = at or 0
        if isinstance(part, int):
            entry = re.compile(r"^\s*(\[\[" + str(location[position - 1]) + r"\]\]|\{)")
            hits = [i for i in range(start, len(lines)) if entry.match(lines[i])]
            at = hits[part] if part < len(hits) else at
        else:
            name = re.compile(rf"^\s*(\[+([\w.]+\.)?{part}\]+|{part}\s*=)|[{{,]\s*{part}\s*=")
            at = next((i for i in range(start, len(lines)) if name.search(lines[i])), at)
    return None if at is None else at + 1


__all__ = [
    "Arg",
    "Dim",
    "Scalar",
    "Task",
    "Tolerance",
    "ValueFamily",
    "find_task",
    "load_task",
    "product",
    "task_names",
]
