"""Builds torch extensions: nvcc against the headers of the PyTorch that is installed, cached by
content, in the compiler's sandbox.

The file is compiled with a registration of `forward` behind it. `torch/extension.h` and its like
are short headers of ours here: ATen without Python and without autograd, which compiles faster.
What the library asks of PyTorch, of the CUDA runtime and of the system is read from its symbols,
which no macro hides (library_findings).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfile, which
from tempfile import TemporaryDirectory

from astra_chat.tools.build.nvcc import compiler_sandbox, parse_ptxas, readable_log
from astra_chat.tools.extension import rules
from astra_chat.tools.language import FORWARD
from astra_chat.tools.policy.rules import CUDA_CALLS, refusal
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import BuildFailed, Finding, Resources, TimedOut, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry, room_in
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit

TIMEOUT_S = 420.0
"""Processor time of each process of a build: torch's headers alone take 20 s and more."""
WAITING = 2
NAMESPACE = "astra_candidate"
OBJECT = "kernel.o"
LIBRARY, SYMBOLS, LOG = "kernel.so", "symbols.txt", "nvcc.log"
OPERATOR = re.compile(r"at::_ops::(\w+)::(call|redispatch)\(")
_STUB = "#pragma once\n#include <astra_torch.h>\n"
_TORCH = """#pragma once
#include <ATen/ATen.h>
namespace torch {
using namespace at;
constexpr auto kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong, kFloat16 = at::kHalf, kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
}
"""
_CONTEXT = """#pragma once
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
namespace at::cuda {
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
inline cudaDeviceProp* getCurrentDeviceProperties() {
  static cudaDeviceProp found = [] {
    cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, c10::cuda::current_device()));
    return properties;
  }();
  return &found;
}
}
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
"""
_GUARD = """#pragma once
#include <c10/cuda/CUDAFunctions.h>
#include <optional>
namespace c10::cuda {
class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex index) : before_(ExchangeDevice(index)) {}
  explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { MaybeSetDevice(before_); }

 private:
  DeviceIndex before_;
};
class OptionalCUDAGuard {
 public:
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) guard_.emplace(*device);
  }

 private:
  std::optional<CUDAGuard> guard_;
};
}
namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::OptionalCUDAGuard;
}
"""
STUBS = {
    "astra_torch.h": _TORCH,
    **dict.fromkeys((f"torch/{name}.h" for name in ("extension", "types", "all", "torch")), _STUB),
    "ATen/cuda/CUDAContext.h": _CONTEXT,
    "ATen/cuda/Exceptions.h": _CONTEXT,
    "c10/cuda/CUDAGuard.h": _GUARD,
}
"""Headers that stand before PyTorch's own. Its guard brings streams of its own, events and the
allocator into every library that uses it."""
_BUILT_MACROS = "c10/cuda/impl/cuda_cmake_macros.h"
REGISTRATION = f"""
#include <torch/library.h>
TORCH_LIBRARY({NAMESPACE}, m) {{ m.def("{FORWARD}", &::{FORWARD}); }}
"""


@dataclass(frozen=True)
class ExtensionBuild:
    """A built extension: a folder of the cache."""

    folder: Path
    resources: tuple[Resources, ...]
    cached: bool

    @property
    def library(self) -> Path:
        return self.folder / LIBRARY


@cache
def torch_folder() -> Path:
    """PyTorch's folder; it is not loaded. Raises MissingDependency."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency("a torch extension needs PyTorch: pip install torch")
    return Path(spec.submodule_search_locations[0])


def build_extension(
    task: Task, source: str, arch: str | None, stop: Stop
) -> ExtensionBuild | BuildFailed | TimedOut:
    """Builds a source that the guard let pass.

    Args:
        arch: the GPU's, such as "sm_90"; None for a file without CUDA, on the host alone.

    Raises:
        MissingDependency: without PyTorch, nvcc, a host compiler or nm.
        Cancelled: after `stop` is set.
    """
    command, root = _commands(task, arch), torch_folder()
    version = (root / "version.py").read_text()
    text = f"{source}\n{REGISTRATION}"
    key = [
        version,
        *command.compile,
        *command.link,
        *(word for item in STUBS.items() for word in item),
        text,
    ]
    folder = cache_folder("extensions")
    final = folder / sha256_of("\0".join(key))[:32]
    if in_cache(final):
        return _read(final, cached=True)
    with room_in(folder), TemporaryDirectory(prefix=".build-", dir=folder) as made:
        scratch = Path(made)
        for name, content in {**STUBS, **_missing(), "kernel.cu": text}.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_text(content)
        if failed := _built(scratch, command, source, stop):
            return failed
        with new_entry(final) as entry:
            for name in (LIBRARY, SYMBOLS, LOG):
                copyfile(scratch / name, entry / name)
    return _read(final, cached=False)


def _read(folder: Path, *, cached: bool) -> ExtensionBuild:
    log = (folder / LOG).read_text(errors="replace")
    return ExtensionBuild(folder, parse_ptxas(log), cached)


def _built(
    scratch: Path, command: _Commands, source: str, stop: Stop
) -> BuildFailed | TimedOut | None:
    nm = which("nm")
    if nm is None:
        raise MissingDependency("no nm: install binutils, for example: apt-get install binutils")
    sandbox = compiler_sandbox(scratch, [torch_folder()])
    # What the file itself asks of others: a library holds C++'s own, too, where that is static.
    words = (
        f"ulimit -S -t {TIMEOUT_S:.0f}; {shlex.join(command.compile)} >{LOG} 2>&1 &&"
        f" {shlex.join(command.link)} >>{LOG} 2>&1 && {nm} -Cu {OBJECT} >{SYMBOLS}"
    )
    late = TimedOut(step="build", limit_s=TIMEOUT_S)
    try:
        done = run_limited(
            ["/bin/sh", "-c", words],
            timeout_s=WAITING * TIMEOUT_S,
            cwd=scratch,
            stop=stop,
            sandbox=sandbox,
        )
    except (StepTimeout, StepMemory):
        return late
    if done.returncode == 0:
        return None
    log = scratch / LOG
    said = log.read_text(errors="replace") if log.is_file() else done.output
    return BuildFailed(log=readable_log(_numbered(said), source))


def _numbered(log: str) -> str:
    """g++'s places as nvcc writes them."""
    return re.sub(r"^kernel\.cu:(\d+)(?::\d+)?: ", r"kernel.cu(\1): ", log, flags=re.MULTILINE)


@dataclass(frozen=True)
class _Commands:
    """The compiler and all its flags, for the object and for the library."""

    compile: list[str]
    link: list[str]


def _commands(task: Task, arch: str | None) -> _Commands:
    toolkit, root = find_toolkit(), torch_folder()
    libraries = ("c10", "torch_cpu", "torch", "c10_cuda", "torch_cuda")
    links = [f"-l{name}" for name in libraries if (root / "lib" / f"lib{name}.so").is_file()]
    places, ends = ["-I.", f"-I{root / 'include'}"], [f"-L{root / 'lib'}", *links, "-o", LIBRARY]
    if arch is None:
        host = ["-O2", "-fPIC", "-w", f"-std={_standard()}", "-x", "c++"]
        return _Commands(
            [str(toolkit.cxx), *host, *places, "-c", "kernel.cu", "-o", OBJECT],
            [str(toolkit.cxx), "-shared", OBJECT, "-Wl,--no-as-needed", *ends],
        )
    number = arch.removeprefix("sm_")
    flags = [flag for flag in task.flags if not flag.startswith(("-std", "--std"))]
    host_compiler = f"-ccbin={toolkit.cxx}"
    code = f"-gencode=arch=compute_{number},code={arch}"
    compiles = [
        str(toolkit.nvcc),
        *flags,
        f"-std={_standard()}",
        code,
        "-w",
        "-lineinfo",
        "-Xptxas=-v",
        "-Xcompiler=-fPIC",
        "--expt-relaxed-constexpr",
        host_compiler,
        *places,
        f"-I{toolkit.include_dir}",
        "-c",
        "kernel.cu",
        "-o",
        OBJECT,
    ]
    # The runtime is the one that PyTorch has loaded, by way of libc10_cuda.
    shared = ["-shared", code, host_compiler, "-cudart=none", "-Xlinker=--no-as-needed"]
    return _Commands(compiles, [str(toolkit.nvcc), *shared, OBJECT, *ends])


def _missing() -> dict[str, str]:
    """A header that a PyTorch for the host alone lacks: files compile against it all the same."""
    there = (torch_folder() / "include" / _BUILT_MACROS).is_file()
    return {} if there else {_BUILT_MACROS: "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n"}


@cache
def _standard() -> str:
    """The C++ standard of PyTorch's own extensions."""
    text = (torch_folder() / "utils" / "cpp_extension.py").read_text()
    found = re.search(r"'-std=(c\+\+\d\d)'", text)
    return found[1] if found else "c++17"


def library_findings(built: ExtensionBuild, source: str) -> tuple[Finding, ...]:
    """What the file asks of others that is not allowed, at the line that names it."""
    text = (built.folder / SYMBOLS).read_text(errors="replace")
    found = dict[str, str]()
    for line in text.splitlines():
        name = line.strip().partition(" ")[2].strip() or line.strip()
        for word, why in _refused(name.partition("@")[0]):
            found[word] = why
    return tuple(
        Finding(line=_line_of(source, word), what=f"{word}: {why}")
        for word, why in sorted(found.items())
    )


def _refused(symbol: str) -> Iterator[tuple[str, str]]:
    if match := OPERATOR.match(symbol):
        if match[2] != "call" or not rules.operator_of(match[1]):
            yield match[1], "this operator is not on the list of a torch extension"
    elif "(" in symbol or "::" in symbol:
        if match := rules.LIBRARY_RULES.search(symbol):
            yield match[0], "a torch extension may not use this part of PyTorch"
    elif not rules.RUNTIME.fullmatch(symbol):
        if symbol.startswith("cuda") and not CUDA_CALLS.fullmatch(symbol):
            yield symbol, "a torch extension does not need this function of the CUDA runtime"
        elif why := refusal(symbol, called=True):
            yield symbol, why


def _line_of(source: str, word: str) -> int:
    """The first line with the name, or with its beginning; 1 where a macro hides it."""
    lines = source.splitlines()
    for name in (word, word.partition("_")[0]):
        where = re.compile(rf"\b{re.escape(name.rpartition('::')[2])}\b")
        if found := next((n for n, text in enumerate(lines, 1) if where.search(text)), 0):
            return found
    return 1
