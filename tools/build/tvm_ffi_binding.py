"""A task's tvm-ffi binding: C++ that takes TensorViews, checks them and calls the launcher.

Generated from the contract, compiled once per task, linked to any candidate of it. The calling
convention is that of tvm-ffi's stable C ABI (TVM_FFI_DLL_EXPORT_TYPED_FUNC), which SGLang's JIT
kernels and FlashInfer use; the stream is the caller's (TVMFFIEnvGetStream).
"""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from astra_chat.tools.build.cpp_expressions import cpp, cpp_relation, factors
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.task.folder import Arg, Dim, Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import DTYPE_CODES, ITEM_BYTES, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import Toolkit

COMPILE_TIMEOUT_S = 180.0
COMPILE_MEMORY_BYTES = 8 * 2**30
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")

_DLPACK = {
    "float32": "kDLFloat, 32",
    "float16": "kDLFloat, 16",
    "bfloat16": "kDLBfloat, 16",
    "float8_e4m3fn": "kDLFloat8_e4m3fn, 8",
    "float8_e5m2": "kDLFloat8_e5m2, 8",
    "int8": "kDLInt, 8",
    "uint8": "kDLUInt, 8",
    "int32": "kDLInt, 32",
    "int64": "kDLInt, 64",
    "bool": "kDLBool, 8",
    "float8_e8m0fnu": "kDLFloat8_e8m0fnu, 8",
}


def ensure_binding(task: Task, toolkit: Toolkit) -> Path:
    """Object file of the task's binding, from the cache or compiled now (about 5 s).

    Raises MissingDependency where tvm-ffi is missing or its headers do not compile, and BadInput
    where the contract's dims do not follow from the shapes of its arguments.
    """
    source = binding_source(task)
    command = [
        str(toolkit.cxx),
        *FLAGS,
        f"-I{toolkit.include_dir}",
        f"-I{tvm_ffi_folder('include')}",
    ]
    key = sha256_of("\0".join([toolkit.version, tvm_ffi_version(), *command, source]))[:32]
    final = cache_folder("bindings") / key
    if not in_cache(final):
        with new_entry(final) as scratch:
            (scratch / "binding.cpp").write_text(source)
            compile_cpp([*command, "-c", "binding.cpp", "-o", "binding.o"], scratch)
    return final / "binding.o"


def compile_cpp(command: list[str], folder: Path, sandbox: SandboxPolicy | None = None) -> None:
    """Run a compiler or linker on our own code, or in a sandbox on untrusted code. Raises
    MissingDependency with its first errors."""
    try:
        done = run_limited(
            command,
            timeout_s=COMPILE_TIMEOUT_S,
            cwd=folder,
            stop=Stop(),
            sandbox=sandbox,
            memory_bytes=None if sandbox else COMPILE_MEMORY_BYTES,
        )
    except StepTimeout:
        raise MissingDependency(
            f"{command[0]} took longer than {COMPILE_TIMEOUT_S:.0f} s"
        ) from None
    if done.returncode:
        errors = [line for line in done.output.splitlines() if "error" in line or "ld:" in line]
        excerpt = "; ".join(errors[:3]) or done.output[-300:]
        raise MissingDependency(f"{command[0]} cannot build the tvm-ffi module: {excerpt}")


def tvm_ffi_version() -> str:
    try:
        return importlib.metadata.version("apache-tvm-ffi")
    except importlib.metadata.PackageNotFoundError:
        raise MissingDependency("tvm-ffi is missing: pip install apache-tvm-ffi") from None


def tvm_ffi_folder(which: str) -> Path:
    """tvm-ffi's "include" or "lib" folder, from its own command. Raises MissingDependency."""
    tvm_ffi_version()
    done = subprocess.run(
        [sys.executable, "-m", "tvm_ffi.config", f"--{which}dir"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    folder = Path(done.stdout.strip())
    if done.returncode or not folder.is_dir():
        raise MissingDependency("tvm-ffi does not report its folders: reinstall apache-tvm-ffi")
    return folder


def binding_source(task: Task) -> str:
    """C++ of the binding; exported name and launcher are both `task.entry`."""
    return _Binding(task).source()


def given_dims(task: Task) -> list[str]:
    """Dims that no tensor's shape gives: parameters of the module's function after the tensors."""
    return _solutions(task, lambda name: name)[0]


def parameter_names(task: Task) -> list[str]:
    """Names of the parameters of the module's function, in their order."""
    tensors, scalars = (arg.name for arg in task.args), (scalar.name for scalar in task.scalars)
    return [*tensors, *given_dims(task), *scalars]


class _Binding:
    """Writes the binding of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._scalars = {scalar.name for scalar in task.scalars}
        self._given, self._solved = _solutions(task, self._spelled)

    def source(self) -> str:
        task = self._task
        return "\n".join(
            [
                (Path(__file__).parent / "tvm_ffi_binding.h").read_text(),
                f"{prototype(task)};",
                "namespace {",
                *(
                    line
                    for name in task.variables
                    if self._typed(name)
                    for line in self._code(name)
                ),
                f"void call({', '.join(self._parameters())}) {{",
                *(f"  {line}" for line in self._body()),
                "}",
                "}  // namespace",
                f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({task.entry}, call);",
                "",
            ]
        )

    def _parameters(self) -> list[str]:
        kinds = {"float": "double", "int64_t": "int64_t", "bool": "bool"}
        tensors = [
            f"Optional<TensorView> given_{arg.name}" if arg.optional else f"TensorView {arg.name}"
            for arg in self._task.args
        ]
        dims = [f"int64_t dim_{name}" for name in self._given]
        return [*tensors, *dims, *(f"{kinds[s.type]} {s.name}" for s in self._task.scalars)]

    def _body(self) -> Iterator[str]:
        task = self._task
        yield f"const DLDevice device = {self._required()[0].name}.device();"
        for arg in self._required():
            yield f"require_layout({arg.name}, device, {len(arg.shape)}, {_quoted(arg.name)});"
            if arg.strides is None:
                yield f"require_contiguous({arg.name}, {_quoted(arg.name)});"
        yield from self._codes()
        for arg in self._required():
            yield from self._dtype(arg)
        yield from self._solved
        for arg in self._required():
            yield from self._extents(arg)
        yield from (self._domain(name, dim) for name, dim in task.dims.items())
        for relation in task.require:
            held = cpp_relation(relation, self._spelled)
            yield f'require_relation({held}, "{relation}");'
        for arg in self._required():
            yield from self._places(arg)
        yield from (line for arg in task.args if arg.optional for line in self._optional(arg))
        yield "DeviceScope scope(device.device_id);"
        yield "void* stream = TVMFFIEnvGetStream(device.device_type, device.device_id);"
        yield f"const cudaError_t error = ::{task.entry}({', '.join(self._values())});"
        yield "if (error != cudaSuccess) {"
        yield f'  TVM_FFI_THROW(RuntimeError) << "{task.entry}: " << cudaGetErrorString(error);'
        yield "}"

    def _required(self) -> list[Arg]:
        return [arg for arg in self._task.args if not arg.optional]

    def _typed(self, variable: str) -> str:
        """The argument whose dtype tells what a type variable stands for; "" where none does."""
        return next((arg.name for arg in self._required() if arg.dtype == variable), "")

    def _code(self, variable: str) -> list[str]:
        """The launcher's dtype code of a tensor; only the task's dtypes have one."""
        if not self._typed(variable):
            return []
        names = list(dict.fromkeys(types[variable] for types in self._task.types))
        return [
            f"int {_code_name(variable)}_of(const TensorView& tensor) {{",
            *(f"  if (is(tensor.dtype(), {_DLPACK[n]})) return {DTYPE_CODES[n]};" for n in names),
            f'  TVM_FFI_THROW(TypeError) << "dtype must be one of: {", ".join(names)}";',
            "  TVM_FFI_UNREACHABLE();",
            "}",
        ]

    def _codes(self) -> Iterator[str]:
        """A code for each type variable, in a combination that the task lists."""
        variables = self._task.variables
        for name in variables:
            typed, code = self._typed(name), _code_name(name)
            first = DTYPE_CODES[self._task.types[0][name]]
            yield f"const int {code} = {f'{code}_of({typed})' if typed else first};"
        if len(variables) > 1:
            each = (
                " && ".join(f"{_code_name(n)} == {DTYPE_CODES[d]}" for n, d in types.items())
                for types in self._task.types
            )
            listed = " || ".join(f"({one})" for one in each)
            yield f'require_relation({listed}, "one of the combinations of dtypes");'

    def _dtype(self, arg: Arg) -> Iterator[str]:
        """All arguments of a type variable share one dtype, the others have their own."""
        typed = self._typed(arg.dtype)
        if arg.dtype not in self._task.variables:
            yield f"require_dtype({arg.name}, {_DLPACK[arg.dtype]}, {_quoted(arg.name)});"
        elif typed and arg.name != typed:
            yield f"require_same_dtype({arg.name}, {typed}, {_quoted(arg.name)});"

    def _extents(self, arg: Arg) -> Iterator[str]:
        for axis, extent in enumerate(arg.shape):
            value = cpp(extent, self._spelled)
            yield f'require_extent({arg.name}, {axis}, {value}, "{arg.name}", "{extent}");'

    def _places(self, arg: Arg) -> Iterator[str]:
        """Strides and alignment."""
        names = dict(zip(arg.free_axes, arg.stride_names, strict=True))
        if arg.strides == ("free", "1"):
            aligned = f'"{arg.name}", {arg.stride_alignment_bytes}'
            yield f"const int64_t {names[0]} = row_stride({arg.name}, {aligned});"
        elif arg.strides is not None:
            for axis in reversed(range(len(arg.shape))):
                if axis in names:
                    aligned = f"{_quoted(arg.name)}, {arg.stride_alignment_bytes}"
                    stride = f"free_stride({arg.name}, {axis}, {aligned})"
                    yield f"const int64_t {names[axis]} = {stride};"
                else:
                    value = cpp(arg.strides[axis], self._spelled)
                    yield f"require_stride({arg.name}, {axis}, {value}, {_quoted(arg.name)});"
        yield f"require_aligned({arg.name}, {self._alignment(arg)}, {_quoted(arg.name)});"

    def _optional(self, arg: Arg) -> Iterator[str]:
        """Yields the checks of a tensor that may be None, made only where it is not."""
        yield f"void* address_{arg.name} = nullptr;"
        yield from (f"int64_t {name}_or_0 = 0;" for name in arg.stride_names)
        yield f"if (given_{arg.name}.has_value()) {{"
        yield f"  const TensorView {arg.name} = given_{arg.name}.value();"
        yield f"  require_layout({arg.name}, device, {len(arg.shape)}, {_quoted(arg.name)});"
        if arg.strides is None:
            yield f"  require_contiguous({arg.name}, {_quoted(arg.name)});"
        lines = [*self._dtype(arg), *self._extents(arg), *self._places(arg)]
        yield from (f"  {line}" for line in lines)
        yield from (f"  {name}_or_0 = {name};" for name in arg.stride_names)
        yield f"  address_{arg.name} = address({arg.name});"
        yield "}"

    def _values(self) -> list[str]:
        task = self._task
        return [
            *(f"address_{a.name}" if a.optional else f"address({a.name})" for a in task.args),
            *(f"dim_{name}" for name in task.dims),
            *(f"{n}_or_0" if a.optional else n for a in task.args for n in a.stride_names),
            *(
                f"static_cast<float>({s.name})" if s.type == "float" else s.name
                for s in task.scalars
            ),
            *(_code_name(variable) for variable in task.variables),
            "static_cast<cudaStream_t>(stream)",
        ]

    def _spelled(self, name: str) -> str:
        return name if name in self._scalars else f"dim_{name}"

    def _domain(self, name: str, dim: Dim) -> str:
        if dim.values:
            listed = " || ".join(f"dim_{name} == {value}" for value in dim.values)
            words = f"{name} is one of {', '.join(map(str, dim.values))}"
            return f'require_relation({listed}, "{words}");'
        kinds, first = self._task.combinations, self._task.variables[:1]
        if not first:
            return (
                f"require_legal(dim_{name}, {dim.min}, {dim.max}, {dim.step(kinds[0].dtype)},"
                f' "{name}");'
            )
        steps = {kind.dtype: dim.step(kind.dtype) for kind in kinds}
        code = _code_name(first[0])
        step = " : ".join(f"{code} == {DTYPE_CODES[d]} ? {one}" for d, one in steps.items())
        return f'require_legal(dim_{name}, {dim.min}, {dim.max}, {step} : 1, "{name}");'

    def _alignment(self, arg: Arg) -> int:
        """Rows of whole vectors need an aligned first element too."""
        task = self._task
        widest = max(ITEM_BYTES[arg.dtype_of(kind.case({}))] for kind in task.combinations)
        if task.schema_version > 1:
            return math.lcm(arg.min_alignment_bytes, widest)
        return max([widest, *(dim.multiple_of_bytes for dim in task.dims.values())])


def dim_sources(task: Task) -> list[tuple[str, str, int | None, list[str]]]:
    """How each dim follows from a call: the argument, the axis whose extent is a multiple of it,
    and the other factors. Where no shape gives a dim it is an argument: the axis is None."""
    axes = [
        (arg, axis, product)
        for arg in task.args
        if not arg.optional
        for axis, extent in enumerate(arg.shape)
        if (product := factors(extent)) is not None
    ]
    found, known = list[tuple[str, str, int | None, list[str]]](), set[str]()
    while missing := [name for name in task.dims if name not in known]:
        for arg, axis, product in axes:
            unknown = [name for name in product if name in task.dims and name not in known]
            if len(unknown) == 1:
                others = [name for name in product if name != unknown[0]]
                found.append((unknown[0], arg.name, axis, others))
                break
        else:
            found.append((missing[0], missing[0], None, []))
        known.add(found[-1][0])
    return found


def _solutions(task: Task, spelled: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Dims that no shape gives, which the caller has to, and C++ that computes the others."""
    extents = {arg.name: arg.shape for arg in task.args}
    given, lines = list[str](), list[str]()
    for dim, arg, axis, others in dim_sources(task):
        if axis is None:
            given.append(dim)
            continue
        rest = "*".join(cpp(name, spelled) for name in others) or "1"
        lines.append(
            f"const int64_t dim_{dim} = divided({arg}, {axis}, {rest},"
            f' "{arg}", "{extents[arg][axis]}");'
        )
    return given, lines


def _code_name(variable: str) -> str:
    return f"code_{variable}"


def _quoted(name: str) -> str:
    return f'"{name}"'
