"""A task's tvm-ffi binding: C++ that takes TensorViews, checks them and calls the launcher.

Generated from the contract, compiled once per task, linked to any candidate of it. The calling
convention is that of tvm-ffi's stable C ABI (TVM_FFI_DLL_EXPORT_TYPED_FUNC), which SGLang's JIT
kernels and FlashInfer use; the stream is the caller's (TVMFFIEnvGetStream).
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from astra_chat.tools.errors import BadInput, MissingDependency
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.cache import cache_folder, in_cache, new_entry
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.system.toolkit import Toolkit
from astra_chat.tools.task.folder import Arg, Dim, Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import DTYPE_CODES, ITEM_BYTES, DTypeName, sha256_of

COMPILE_TIMEOUT_S = 180.0
COMPILE_MEMORY_BYTES = 8 * 2**30
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")

_DLPACK = {"float32": "kDLFloat, 32", "float16": "kDLFloat, 16", "bfloat16": "kDLBfloat, 16"}


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
            command, timeout_s=COMPILE_TIMEOUT_S, cwd=folder, stop=Stop(), sandbox=sandbox,
            memory_bytes=None if sandbox else COMPILE_MEMORY_BYTES,
        )  # fmt: skip
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
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    folder = Path(done.stdout.strip())
    if done.returncode or not folder.is_dir():
        raise MissingDependency("tvm-ffi does not report its folders: reinstall apache-tvm-ffi")
    return folder


def binding_source(task: Task) -> str:
    """C++ of the binding; exported name and launcher are both `task.entry`. Raises BadInput."""
    names = [arg.name for arg in task.args]
    parameters = [f"TensorView {name}" for name in names]
    parameters += [
        f"{'double' if scalar.type == 'float' else 'int64_t'} {scalar.name}"
        for scalar in task.scalars
    ]
    typed = next((arg.name for arg in task.args if arg.dtype == "T"), None)
    values = [f"address({name})" for name in names]
    values += [f"dim_{name}" for name in task.dims]
    values += [f"{arg.name}_stride" for arg in task.args if arg.strided]
    values += [
        f"static_cast<float>({s.name})" if s.type == "float" else s.name for s in task.scalars
    ]
    values += ["code", "static_cast<cudaStream_t>(stream)"]
    body = [
        f"const DLDevice device = {names[0]}.device();",
        *(line for arg in task.args for line in _layout(arg)),
        f"const int code = {f'code_of({typed})' if typed else DTYPE_CODES[task.dtypes[0]]};",
        *_dtypes(task, typed),
        *_dims(task),
        *(f"require_aligned({name}, {_alignment(task)}, {_quoted(name)});" for name in names),
        "DeviceScope scope(device.device_id);",
        "void* stream = TVMFFIEnvGetStream(device.device_type, device.device_id);",
        f"const cudaError_t error = ::{task.entry}({', '.join(values)});",
        "if (error != cudaSuccess) {",
        f'  TVM_FFI_THROW(RuntimeError) << "{task.entry}: " << cudaGetErrorString(error);',
        "}",
    ]
    return "\n".join(
        [
            (Path(__file__).parent / "tvm_ffi_binding.h").read_text(),
            f"{prototype(task)};",
            "namespace {",
            *(_code_of(task) if typed else []),
            f"void call({', '.join(parameters)}) {{",
            *(f"  {line}" for line in body),
            "}",
            "}  // namespace",
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({task.entry}, call);",
            "",
        ]
    )


def _code_of(task: Task) -> list[str]:
    """The launcher's dtype code of a tensor; only the task's dtypes have one."""
    return [
        "int code_of(const TensorView& tensor) {",
        *(f"  if (is(tensor.dtype(), {_DLPACK[n]})) return {DTYPE_CODES[n]};" for n in task.dtypes),
        f'  TVM_FFI_THROW(TypeError) << "dtype must be one of: {", ".join(task.dtypes)}";',
        "  TVM_FFI_UNREACHABLE();",
        "}",
    ]


def _layout(arg: Arg) -> list[str]:
    lines = [f"require_layout({arg.name}, device, {len(arg.shape)}, {_quoted(arg.name)});"]
    if arg.strided:
        lines.append(f'const int64_t {arg.name}_stride = row_stride({arg.name}, "{arg.name}");')
    else:
        lines.append(f"require_contiguous({arg.name}, {_quoted(arg.name)});")
    return lines


def _dtypes(task: Task, typed: str | None) -> list[str]:
    """All "T" arguments share one dtype, the others have their own."""
    lines = []
    for arg in task.args:
        if arg.dtype != "T":
            lines.append(f"require_dtype({arg.name}, {_DLPACK[arg.dtype]}, {_quoted(arg.name)});")
        elif arg.name != typed:
            lines.append(f"require_same_dtype({arg.name}, {typed}, {_quoted(arg.name)});")
    return lines


def _dims(task: Task) -> list[str]:
    """Solve the shapes for the dims, then require every shape and every dim's legal values."""
    axes = [(arg, axis, extent) for arg in task.args for axis, extent in enumerate(arg.shape)]
    known: set[str] = set()
    lines: list[str] = []
    while missing := [name for name in task.dims if name not in known]:
        solution = next((s for s in (_solve(*axis, known, task) for axis in axes) if s), None)
        if solution is None:
            raise BadInput(f"{task.name}: the dim {missing[0]} does not follow from the shapes")
        name, line = solution
        known.add(name)
        lines.append(line)
    for arg, axis, extent in axes:
        value = "*".join(_factor(factor) for factor in extent.split("*"))
        lines.append(f'require_extent({arg.name}, {axis}, {value}, "{arg.name}", "{extent}");')
    return lines + [_domain(task, name, dim) for name, dim in task.dims.items()]


def _solve(arg: Arg, axis: int, extent: str, known: set[str], task: Task) -> tuple[str, str] | None:
    """The dim that follows from this axis and the `known` dims, and the C++ that computes it."""
    factors = extent.split("*")
    unknown = [factor for factor in factors if factor in task.dims and factor not in known]
    if len(unknown) != 1:
        return None
    rest = [_factor(factor) for factor in factors if factor != unknown[0]]
    divisor = "*".join(rest) or "1"
    return unknown[0], (
        f"const int64_t dim_{unknown[0]} ="
        f' divided({arg.name}, {axis}, {divisor}, "{arg.name}", "{extent}");'
    )


def _factor(factor: str) -> str:
    return f"int64_t{{{factor}}}" if factor.isdecimal() else f"dim_{factor}"


def _domain(task: Task, name: str, dim: Dim) -> str:
    steps = {dtype: dim.step(dtype) for dtype in task.dtypes}
    step = " : ".join(f"code == {DTYPE_CODES[dtype]} ? {steps[dtype]}" for dtype in task.dtypes)
    return f'require_legal(dim_{name}, {dim.min}, {dim.max}, {step} : 1, "{name}");'


def _alignment(task: Task) -> int:
    """Rows of whole vectors need an aligned first element too."""
    widest: DTypeName = max(task.dtypes, key=lambda dtype: ITEM_BYTES[dtype])
    return max([ITEM_BYTES[widest], *(dim.multiple_of_bytes for dim in task.dims.values())])


def _quoted(name: str) -> str:
    return f'"{name}"'
