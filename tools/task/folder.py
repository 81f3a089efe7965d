"""A task folder as values (task.toml): the contract of a kernel, its cases and its tolerances.

The folder holds task.toml, baseline.cu, reference.py and, where there are any, headers, paper.cu,
script/ and transcript.jsonl.xz.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from astra_chat.tools.task.binding import Binding
from astra_chat.tools.task.contract import Arg, Dim, Name, Scalar, Tolerance
from astra_chat.tools.task.contradictions import Problem, problems
from astra_chat.tools.task.domain import Domain
from astra_chat.tools.task.expressions import parse
from astra_chat.tools.task.memory import Memory
from astra_chat.tools.task.precision import LEAST_NORMAL, Precision
from astra_chat.tools.task.ranks import RanksContract, with_ranks
from astra_chat.tools.task.shipped import BUILTIN, task_folder, task_names
from astra_chat.tools.task.task_file import Contradictions, problem_lines, problems_of, task_fields
from astra_chat.tools.types import Case, DTypeName, ValueFamily, sha256_of
from astra_vgpu.ground.errors import BadInput

TRANSCRIPT = "transcript.jsonl.xz"
"""A recorded run about the task. It says nothing about how a kernel is judged, so it is no part of
the task's id."""
TRANSCRIPTS = (TRANSCRIPT, "transcript.jsonl.gz")
"""Its names; the first that is there counts."""
ENGINE_FILE = "engine.toml"
"""Where engines call the operator; as little a part of the task's id (docs/engine-toml.md)."""
REQUIRED_FILES = ("task.toml", "baseline.cu", "reference.py")
"""The last not where task.toml names a reference."""

REFERENCE = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$"
FOLDER_NAME = r"([A-Za-z0-9_][A-Za-z0-9_.+-]*/)*"
HEADER_NAME = rf"^{FOLDER_NAME}[A-Za-z0-9_][A-Za-z0-9_.+-]*\.(cuh|cu|h|hpp|hxx|hh|inl|inc|ipp)$"
HeaderName = Annotated[str, Field(pattern=HEADER_NAME)]
IncludeFolder = Annotated[str, Field(pattern=rf"^{FOLDER_NAME}[A-Za-z0-9_][A-Za-z0-9_.+-]*$")]
_CONSISTENT: set[str] = set()
"""Contracts of this process in which no contradiction was found: to look takes up to 0.2 s."""


class Task(Domain):
    """The contract of a kernel. Every field but `folder` stands in task.toml."""

    model_config = ConfigDict(ignored_types=(cached_property,))

    schema_version: Literal[1, 2] = Field(alias="schema")
    name: Name
    summary: str
    entry: Name
    """The exported launcher."""
    tolerance: dict[DTypeName, Tolerance] = Field(default_factory=dict)
    """Tolerances of results that are judged as close, by dtype."""
    oracle_ratio: float = Field(default=2.0, ge=1)
    """A candidate's error norm, and its share of 16-bit results off the nearest value, may be this
    many times the baseline's own (tools/check/error_norms.py)."""
    reference: Annotated[str, Field(pattern=REFERENCE)] | None = None
    """The function of PyTorch's that says what is right, "module:function": of a file of the
    folder, or of an installed module. None: reference.py does."""
    precision: Precision = Field(default_factory=Precision)
    """How near a midpoint an exact result has to be for either neighbour to be right."""
    memory: Memory | None = None
    """What memory a call needs as a second objective; None: only its speed counts."""
    tensor_float32: bool = False
    """Grants what the audit refuses of float32 contracts: tensor cores, TF32, 16-bit arithmetic."""
    flags: tuple[str, ...]
    """nvcc flags of baseline and candidates alike: upstream's."""
    build_timeout_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    """Processor time of each process of a build; None: the usual limit (tools/build/nvcc.py)."""
    headers: tuple[HeaderName, ...] = ()
    """Files of the folder that baseline and candidates may include, by name in quotes."""
    include: tuple[IncludeFolder, ...] = ()
    """Folders of these, in which included names are looked for (-I)."""
    binding: Binding | None = None
    """How the launcher calls a function of the file; None: the file defines the launcher."""
    ranks: RanksContract | None = None
    """The ranks of a kernel over several GPUs; None: it runs on one."""
    check: tuple[Case, ...] = Field(min_length=1)
    bench: tuple[tuple[Case, float], ...] = Field(min_length=1)
    """Timed cases, each with its weight."""
    demo: tuple[tuple[Case, float], ...] = Field(min_length=1)
    """The short list that is timed where the device is the virtual GPU."""
    provenance: dict[str, str]
    folder: Path

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        cases = (*self.check, *(case for case, _ in (*self.bench, *self.demo)))
        contract = sha256_of(repr(self))
        if contract in _CONSISTENT:
            found = list(self._lacking())
        else:
            found = problems(self, cases) or [*self._lacking(), *self._illegal(), *self._unnamed()]
        if found:
            raise Contradictions(found)
        _CONSISTENT.add(contract)
        return self

    def _lacking(self) -> Iterator[Problem]:
        """Tolerances and headers that should be there."""
        close = [
            arg.dtype_of(case)
            for case in (combination.case({}) for combination in self.combinations)
            for arg in self.args
            if arg.written and not arg.tolerance and arg.judged_by(case) == "close"
        ]
        if missing := set(close) - set(self.tolerance):
            yield ("tolerance",), f"tolerance is missing for {', '.join(sorted(missing))}"
        if self.binding:
            tensors = {arg.name for arg in self.args}
            others = {*self.dims, *(s.name for s in self.scalars)}
            others |= {name for arg in self.args for name in arg.stride_names}
            for what in self.binding.unknown(tensors, others, set(self.variables)):
                yield ("binding",), f"binding: {what}"
            if (name := self.binding.launcher) and not (self.folder / name).is_file():
                yield ("binding",), f"binding: {name} is not in the task's folder"
        for at, name in enumerate(self.headers):
            if not (self.folder / name).is_file():
                yield ("headers", at), f"headers: {name} is not in the task's folder"

    def _illegal(self) -> Iterator[Problem]:
        """Cases outside the domain."""
        timed = {"bench": self.bench, "demo": self.demo}
        lists = {"check": self.check, **{n: [case for case, _ in t] for n, t in timed.items()}}
        for section, cases in lists.items():
            for at, case in enumerate(cases):
                try:
                    self.require_legal(case)
                except ValueError as error:
                    yield (section, at), str(error)

    def _unnamed(self) -> Iterator[Problem]:
        """Names in [precision] and [memory] that are no dim or integer scalar of the task."""
        known = {*self.dims, *(s.name for s in self.scalars if s.type == "int64_t")}
        said = {("precision", "summands"): self.precision.summands}
        if self.memory:
            said["memory", "eager"] = self.memory.eager
        for place, text in said.items():
            for name in sorted(parse(text).names - known):
                yield place, f"'{name}' is neither a dim nor an integer scalar"

    def band_factor(self, case: Case) -> float:
        """Width of the band on either side of a midpoint, over an element's sum of terms."""
        return self.precision.factor(self.args[0].names_in(case))

    def flushed(self, case: Case) -> float:
        """Returns what a result may be off where hardware takes denormal numbers for zero, as
        atomic additions to global memory do: each of the numbers that it is made of, once."""
        read = sum(math.prod(a.shape_of(case)) for a in self.args if a.read and a.present(case))
        return LEAST_NORMAL * (1 + -(-read // max(1, self.least_results(case))))

    def tolerance_of(self, arg: Arg, case: Case) -> Tolerance:
        """Returns the tolerance of a result that is judged as close."""
        return arg.tolerance or self.tolerance[arg.dtype_of(case)]

    @cached_property
    def id(self) -> str:
        """sha256 over the folder's own files: two runs with equal ids judge by the same rules."""
        return sha256_of("".join(f"{n}\0{sha256_of(t)}\0" for n, t in sorted(self.files().items())))

    @property
    def baseline(self) -> str:
        return (self.folder / "baseline.cu").read_text()

    @property
    def launcher_file(self) -> str:
        """C++ of the task that follows the user's file; "" where there is none."""
        name = self.binding.launcher if self.binding else None
        return (self.folder / name).read_text() if name else ""

    @property
    def reference_text(self) -> str:
        """Text of reference.py; "" where there is none."""
        path = self.folder / "reference.py"
        return path.read_text() if path.is_file() else ""

    @property
    def reference_place(self) -> str:
        """The file of the function that says what is right; its name, where the folder has none."""
        if self.reference is None:
            return str(self.folder / "reference.py")
        path = self.folder / (self.reference.partition(":")[0].replace(".", "/") + ".py")
        return str(path) if path.is_file() else self.reference

    def header_texts(self) -> dict[str, str]:
        """Text of every header, by name."""
        return {name: (self.folder / name).read_text() for name in self.headers}

    @property
    def recorded_run(self) -> Path | None:
        """The recorded run in the folder, if it holds one."""
        return next((p for n in TRANSCRIPTS if (p := self.folder / n).is_file()), None)

    def files(self) -> dict[str, str]:
        """Text of every file that someone else needs to judge again, by name in the folder."""
        paths = [p for p in self.folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        others = [self.folder / name for name in (*TRANSCRIPTS, ENGINE_FILE)]
        kept = sorted(p for p in paths if p not in others)
        return {p.relative_to(self.folder).as_posix(): p.read_text() for p in kept}


def find_task(name_or_folder: str) -> Task:
    """Load a shipped task by name, or any task folder by path. Raises BadInput."""
    return load_task(task_folder(name_or_folder))


def load_task(folder: Path) -> Task:
    """Read a task folder. Raises BadInput naming file, line and field of what is wrong."""
    _require_files(folder, REQUIRED_FILES[:2])
    path = folder / "task.toml"
    text = path.read_text()
    try:
        fields = task_fields(with_ranks(tomllib.loads(text)))
    except ValidationError as error:
        raise BadInput(problem_lines(path, text, problems_of(error))) from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from None
    if "reference" not in fields:
        _require_files(folder, REQUIRED_FILES)
    try:
        return Task.model_validate({**fields, "folder": folder.resolve()})
    except ValidationError as error:
        raise BadInput(problem_lines(path, text, problems_of(error))) from None


def _require_files(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        if not (folder / name).is_file():
            raise BadInput(f"{folder} is not a task folder: {name} is missing")


__all__ = [
    "BUILTIN",
    "Arg",
    "Dim",
    "Scalar",
    "Task",
    "Tolerance",
    "ValueFamily",
    "find_task",
    "load_task",
    "task_names",
]
