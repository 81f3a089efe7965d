"""A Triton candidate as CUDA text: Triton's machine code of each kernel, and the launcher in C++.

Products and sums are not fused unless the kernel says tl.fma, as by default from Triton 3.10 on:
lanes that compute the same sum then have the same bits, and may store them to one place.

The text is guarded, built, recorded, audited and checked as any CUDA candidate's: what Triton's
process answers is no more trusted than what an author writes. The launcher chooses among compiled
variants by dtype, by constants, and by whether addresses and integers are multiples of 16, as
Triton's own does; it does so in the recorder, with the addresses of the plan.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.language import is_triton, require_launcher
from astra_chat.tools.system.subprocesses import StepTimeout, Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters, prototype
from astra_chat.tools.triton.candidate import TritonSource, read_source
from astra_chat.tools.triton.compile import TIMEOUT_S, Compiled, NotCompiled, Variant, compiled_each
from astra_chat.tools.triton.cpp_launch import LAUNCH
from astra_chat.tools.triton.expressions import (
    C_TYPES,
    HELPERS,
    Cpp,
    Kind,
    NotAllowed,
    kind_of,
    literal,
    variable,
)
from astra_chat.tools.triton.launcher import (
    Assign,
    Branch,
    KernelCall,
    Return,
    Statement,
    task_names,
)
from astra_chat.tools.triton.ptx import SHARED, PtxEntry, asm_statement, entry_of
from astra_chat.tools.triton.variants import Compiling, Value, compilations
from astra_chat.tools.types import C_TYPES as C_TYPES_OF
from astra_chat.tools.types import (
    DTYPE_CODES,
    BuildFailed,
    Finding,
    Refused,
    TimedOut,
    candidate_id,
)
from astra_vgpu.ground.errors import BadInput

MOST_BYTES = 2**20 + 2**19
"""The longest text that is looked at: what nvcc's preprocessor makes of it is read, too."""
INVALID = "cudaErrorInvalidValue"
OF_ONE_ARCHITECTURE = re.compile(r"\b(wgmma|tcgen05)\.")
"""Instructions of tl.dot that nvcc takes for sm_90a or sm_100a only, which is not built for."""
MMA_ARCH = 89
"""Compute capability times 10 for which Triton makes mma.sync of tl.dot instead."""
_C = {"i32": "int", "i64": "int64_t", "fp32": "float"}
_INSIDE_ASM = re.compile(r'[^\x20-\x7e]|["\\]')


def triton_findings(source: str, task: Task) -> tuple[Finding, ...]:
    """Every place of a Triton candidate that is not allowed; empty if there is none."""
    asked = _asked(source, task)
    return () if isinstance(asked[0], TritonSource) else asked


def _asked(
    source: str, task: Task
) -> tuple[TritonSource, dict[KernelCall, list[Compiling]]] | tuple[Finding, ...]:
    """The candidate and its compilations, or what is not allowed in it."""
    read = read_source(source, task)
    if not isinstance(read, TritonSource):
        return read
    try:
        return read, compilations(read.launcher, task)
    except NotAllowed as error:
        return (Finding(line=error.line, what=str(error)),)


def cuda_source(source: str, task: Task, arch: str) -> str:
    """The source; of a Triton candidate its CUDA text. Raises BadInput where it has none,
    MissingDependency without Triton, and Cancelled."""
    if not is_triton(source):
        require_launcher(source)
        return source
    text = translated(source, task, arch)
    if isinstance(text, str):
        return text
    raise BadInput(f"candidate {candidate_id(source)}: {_reason(text)}")


def _reason(found: Refused | BuildFailed | TimedOut) -> str:
    if isinstance(found, Refused):
        return "; ".join(f"line {one.line}: {one.what}" for one in found.findings)
    return found.log if isinstance(found, BuildFailed) else "Triton took too long to compile it"


def translated(
    source: str, task: Task, arch: str, stop: Stop | None = None
) -> str | Refused | BuildFailed | TimedOut:
    """CUDA text of a Triton candidate. Raises MissingDependency without Triton, and Cancelled."""
    found = _asked(source, task)
    if not isinstance(found[0], TritonSource):
        return Refused(gate="guard", findings=found)
    read, asked = found
    text = _kernels_only(read.text, read.lines)
    try:
        return _Text(task, read, asked, _Compiler(text, _number(arch), stop or Stop())).text()
    except (NotCompiled, BadInput) as error:
        return BuildFailed(log=f"Triton cannot compile it: {error}")
    except StepTimeout:
        return TimedOut(step="build", limit_s=TIMEOUT_S)


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


def _kernels_only(source: str, launcher: frozenset[int]) -> str:
    """The file without the launcher; each line keeps its number."""
    lines = source.split("\n")
    return "\n".join("" if n in launcher else line for n, line in enumerate(lines, start=1))


@dataclass(frozen=True)
class _Kernel:
    """A compiled variant as a CUDA kernel."""

    entry: PtxEntry
    types: tuple[str, ...]
    """Types of its parameters in C++."""
    warps: int
    shared_bytes: int


@dataclass(frozen=True)
class _Chosen:
    """What a launch takes for some dtypes and constants."""

    compiling: Compiling
    by_16: _Kernel
    any: _Kernel

    always: bool = False
    """Whether every call that takes it has multiples of 16."""

    def is_by_16(self, kernel: _Kernel) -> bool:
        """Whether a kernel of it is for multiples of 16 only."""
        return self.always or kernel != self.any


@dataclass(frozen=True)
class _Compiler:
    """Asks Triton for machine code."""

    source: str
    arch: int
    stop: Stop

    def kernels(
        self, launch: KernelCall, asked: Sequence[Compiling]
    ) -> tuple[list[_Chosen], list[str]]:
        """The code for each, and the parameters whose multiples of 16 matter to it."""
        useful = self._useful(launch, max((one.variant for one in asked), key=_size))
        pairs = [(replace(a.variant, divisible=tuple(useful)), a.variant) for a in asked]
        made = self._made(launch, [one for pair in pairs for one in pair])
        chosen = list[_Chosen]()
        for one, by_16, any_ in zip(asked, made[::2], made[1::2], strict=True):
            each = [one.multiples.get(name, frozenset({True, False})) for name in useful]
            always = bool(each) and all(some == {True} for some in each) and by_16 != any_
            never = any(some == {False} for some in each)
            any_ = by_16 if always else any_
            chosen.append(_Chosen(one, any_ if never else by_16, any_, always))
        return chosen, useful

    def _useful(self, launch: KernelCall, variant: Variant) -> list[str]:
        """Parameters of which Triton's code is another where they are multiples of 16."""
        hints = [n for n in variant.given if not variant.signature[n].startswith("fp")]
        without = [tuple(h for h in hints if h != name) for name in hints]
        whole, *others = self._made(
            launch, [replace(variant, divisible=some) for some in (tuple(hints), *without)]
        )
        return [name for name, other in zip(hints, others, strict=True) if other != whole]

    def _made(self, launch: KernelCall, variants: Sequence[Variant]) -> list[_Kernel]:
        asked = [(launch.kernel.name, variant) for variant in variants]
        answers = self._compiled(asked, self.arch)
        if any(OF_ONE_ARCHITECTURE.search(one.ptx) for one in answers):
            answers = self._compiled(asked, MMA_ARCH)
        made = []
        for variant, one in zip(variants, answers, strict=True):
            entry = entry_of(one.ptx, len(variant.given))
            if any(_INSIDE_ASM.search(line) for line in entry.body):
                raise NotCompiled(
                    "its PTX contains a quote, a backslash or a non-ASCII character, which no"
                    " instruction contains"
                )
            types = tuple(_C.get(variant.signature[n], "void*") for n in variant.given)
            made.append(_Kernel(entry, types, variant.warps, one.shared_bytes))
        return made

    def _compiled(self, asked: Sequence[tuple[str, Variant]], arch: int) -> list[Compiled]:
        return compiled_each(self.source, asked, arch=arch, fusion=False, stop=self.stop)


def _size(variant: Variant) -> tuple[int, int]:
    """The kernel that loads most at once tells best what alignment matters."""
    numbers = [v for v in variant.constants.values() if isinstance(v, int)]
    return sum(numbers), variant.warps


@dataclass
class _Text:
    """Writes the file: kernels, helpers, launcher."""

    task: Task
    read: TritonSource
    asked: Mapping[KernelCall, list[Compiling]]
    compiler: _Compiler
    names: dict[_Kernel, str] = field(default_factory=dict)
    """Each kernel that is written, once."""
    templates: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """Types of the parameters of each template's kernels, and kinds of its own."""

    def __post_init__(self) -> None:
        self.cpp = Cpp(task_names(self.task), {name: 0 for _, name in parameters(self.task)})

    def text(self) -> str:
        kinds, grids = dict(self.cpp.names.kinds), list[str]()
        _declare(self.read.launcher, kinds, grids)
        self.cpp = Cpp(replace(self.cpp.names, kinds=kinds), self.cpp.parameters)
        own = [(n, k) for n, k in kinds.items() if n not in self.cpp.parameters]
        body = [
            *(f"  {C_TYPES[kind]} {self._variable(name)} = {{}};" for name, kind in own),
            *(f"  int64_t {self._variable(name)}[3] = {{}};" for name in grids),
            *self._block(self.read.launcher, "  "),
        ]
        shared = any(kernel.entry.shared for kernel in self.names)
        declared = f"extern __shared__ __align__(16) unsigned char {SHARED}[];\n"
        return "\n".join(
            [
                "// Triton's machine code of a Triton candidate, and its launcher in C++.",
                "#include <algorithm>",
                "#include <cstdint>",
                "#include <cuda_bf16.h>",
                "#include <cuda_fp16.h>",
                "#include <cuda_fp8.h>",
                "#include <cuda_runtime.h>",
                "",
                *([declared] if shared else []),
                "namespace {",
                "",
                *(line for name, form in self.templates.items() for line in _template(name, form)),
                *(line for kernel, name in self.names.items() for line in _defined(kernel, name)),
                HELPERS,
                LAUNCH,
                "}  // namespace",
                "",
                f"{prototype(self.task)} {{",
                *body,
                "  return cudaSuccess;",
                "}",
                "",
            ]
        )

    def _variable(self, name: str) -> str:
        return variable(name, self.cpp.parameters)

    def _block(self, statements: Sequence[Statement], margin: str) -> Iterator[str]:
        for one in statements:
            match one:
                case Assign(name=name, values=values, kind=None):
                    axes = [*map(self.cpp.text, values), "1", "1"][:3]
                    for axis, text in enumerate(axes):
                        yield f"{margin}{self._variable(name)}[{axis}] = {text};"
                case Assign(name=name, values=(value,)):
                    yield f"{margin}{self._variable(name)} = {self.cpp.text(value)};"
                case Branch(test=test, then=then, otherwise=otherwise):
                    yield f"{margin}if ({self.cpp.text(test)}) {{"
                    yield from self._block(then, margin + "  ")
                    if otherwise:
                        yield f"{margin}}} else {{"
                        yield from self._block(otherwise, margin + "  ")
                    yield f"{margin}}}"
                case Return():
                    yield f"{margin}return cudaSuccess;"
                case KernelCall():
                    yield from self._launch(one, margin)

    def _launch(self, launch: KernelCall, margin: str) -> Iterator[str]:
        """A scope in which the first variant that fits is launched."""
        asked = self.asked.get(launch, [])
        if not asked:  # no call of the contract reaches it
            yield f"{margin}return {INVALID};"
            return
        chosen, useful = self.compiler.kernels(launch, asked)
        if isinstance(launch.grid, str):
            grid = self._variable(launch.grid)
        else:
            grid = "grid"
            axes = [*map(self.cpp.text, launch.grid), "1", "1"][:3]
        given = {n: self._passed(launch, n) for n in asked[0].variant.given}
        yield f"{margin}{{"
        if not isinstance(launch.grid, str):
            yield f"{margin}  const int64_t grid[3] = {{{', '.join(axes)}}};"
        multiples = [f"by_16({given[name]})" for name in useful]
        yield f"{margin}  const bool multiples = {' && '.join(multiples) or 'false'};"
        yield f"{margin}  cudaError_t status = {INVALID};"
        word = "if"
        for one in chosen:
            test = self._test(launch, asked, one.compiling)
            yield f"{margin}  {word} ({f'multiples && {test}' if one.always else test}) {{"
            yield from self._call(launch, one, grid, list(given.values()), margin + "    ")
            word = "} else if"
        yield f"{margin}  }}"
        yield f"{margin}  if (status != cudaSuccess) return status;"
        yield f"{margin}}}"

    def _passed(self, launch: KernelCall, name: str) -> str:
        """A number as int64_t or double; the kernel's parameter has its own width."""
        value = launch.given[name]
        text = self.cpp.text(value)
        if kind_of(value, self.cpp.names) == "pointer":
            return f"const_cast<void*>({text})" if self._constant(text) else text
        return text

    def _constant(self, name: str) -> bool:
        return any(arg.name == name and arg.constant for arg in self.task.args)

    def _test(self, launch: KernelCall, asked: Sequence[Compiling], one: Compiling) -> str:
        codes = self.cpp.names.codes
        tests = [
            f"{codes[variable]} == {DTYPE_CODES[dtype]}"
            for variable, dtype in one.types.items()
            if len({other.types[variable] for other in asked}) > 1
        ]
        selecting: list[tuple[ast.expr, Value]] = [
            (launch.given[name], value)
            for name, value in one.constants.items()
            if len({repr(other.constants[name]) for other in asked}) > 1
        ]
        if len({other.variant.warps for other in asked}) > 1:
            selecting.append((launch.warps, one.variant.warps))
        if len({other.variant.stages for other in asked}) > 1:
            selecting.append((launch.stages, one.variant.stages))
        tests += [f"{self.cpp.text(node)} == {literal(value)}" for node, value in selecting]
        return " && ".join(tests) or "true"

    def _call(
        self, launch: KernelCall, one: _Chosen, grid: str, given: list[str], margin: str
    ) -> Iterator[str]:
        names = [self._name(launch, one, kernel) for kernel in (one.by_16, one.any)]
        kernel = names[0] if names[0] == names[1] else f"multiples ? {names[0]} : {names[1]}"
        shared_bytes = max(one.by_16.shared_bytes, one.any.shared_bytes)
        threads = 32 * one.any.warps
        words = [kernel, grid, str(threads), str(shared_bytes), "stream", *given]
        yield from head(f"{margin}status = launch", words, ";")

    def _name(self, launch: KernelCall, one: _Chosen, kernel: _Kernel) -> str:
        """The kernel as a specialization of a template: dtypes, whole constants, warps, and if it
        is for multiples of 16. The search for calls of a kernel reads them (check/kernels.py)."""
        if kernel not in self.names:
            numbers = [v for v in one.compiling.constants.values() if isinstance(v, int)]
            words = [C_TYPES_OF[dtype] for dtype in one.compiling.types.values()]
            words += [literal(value) for value in [*numbers, kernel.warps, one.is_by_16(kernel)]]
            for index in itertools.count():
                template = launch.kernel.name + (f"_{index}" if index else "")
                form = (kernel.types, tuple(map(_parameter, words)))
                name = f"{template}<{', '.join(words)}>"
                if self.templates.setdefault(template, form) == form:
                    if name not in self.names.values():
                        break
            self.names[kernel] = name
        return self.names[kernel]


def _declare(statements: Sequence[Statement], kinds: dict[str, Kind], grids: list[str]) -> None:
    """Adds the names that a launcher assigns, with their kinds."""
    for one in statements:
        if isinstance(one, Branch):
            _declare([*one.then, *one.otherwise], kinds, grids)
        elif isinstance(one, Assign) and one.kind:
            kinds.setdefault(one.name, one.kind)
        elif isinstance(one, Assign) and one.name not in grids:
            grids.append(one.name)


def _parameter(argument: str) -> str:
    """Kind of a template's parameter, by an argument of it."""
    if argument in ("true", "false"):
        return "bool"
    return "int" if argument.lstrip("-").isdecimal() else "typename"


def _template(name: str, form: tuple[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    types, kinds = form
    return [f"template <{', '.join(kinds)}>", *head(f"__global__ void {name}", types, ";"), ""]


def _defined(kernel: _Kernel, name: str) -> list[str]:
    declared = [f"{kind} a{index}" for index, kind in enumerate(kernel.types)]
    return [
        "template <>",
        f"__global__ void __launch_bounds__({32 * kernel.warps})",
        *head(name, declared, " {"),
        *asm_statement(kernel.entry, [f"a{index}" for index in range(len(declared))], "  "),
        "}",
        "",
    ]
