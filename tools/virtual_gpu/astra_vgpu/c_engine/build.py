"""C files to shared libraries with the host compiler, kept in the cache by content."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_compiler

COMPILE_TIMEOUT_S = 180.0
COMMON_FLAGS = (
    "-x",
    "c",
    "-std=gnu11",
    "-march=native",
    "-fPIC",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-semantic-interposition",
    "-fvisibility=hidden",
    "-w",
)
KERNEL_FLAGS = (
    "-O2",
    "-ftree-vectorize",
    "-fvect-cost-model=unlimited",
    "-mprefer-vector-width=512",
    "-fno-tree-pre",
    "-fno-gcse",
)
"""Compiler flags for kernels. The last two passes take half of the compiler's time for nothing."""
LARGE_SOURCE_LINES = 6000
"""Lines of C above which vectorising loops costs more than it saves."""
RUNTIME_FLAGS = ("-O3",)
LIBRARY = "kernel.so"
StartCompiler = Callable[[Sequence[str], Path], tuple[int, str]]
"""Runs a command in a folder to its end; its exit status and output. May raise
MissingDependency. The text that is compiled comes from untrusted PTX: a judge sandboxes it."""
_RUNTIME = (
    "barriers.c", "block_order.c", "block_races.c", "blocks.c", "bulk.c", "cp_async.c", "doubles.c",
    "grid.c", "heap.c", "mbarriers.c", "memory.c", "mbarrier_races.c", "printf.c",
    "shared_memory_races.c", "counters.c", "tensor.c", "uninitialized_reads.c", "warp_races.c",
    "warps.c",
)  # fmt: skip
_HEADERS = ("lanes.h", "machine.h", "mbarriers.h", "mbarrier_races.h", "simt.h", "stamps.h")


def start_plainly(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Runs the compiler as an ordinary child process. Raises MissingDependency past
    COMPILE_TIMEOUT_S."""
    with tempfile.TemporaryFile("w+") as log:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=COMPILE_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise MissingDependency(f"compiler {command[0]} not found") from None
        except subprocess.TimeoutExpired:
            raise MissingDependency(
                f"{command[0]} did not finish within {COMPILE_TIMEOUT_S:.0f} s: use --engine numpy"
            ) from None
        log.seek(0)
        return done.returncode, log.read()


def ensure_library(source: str, start: StartCompiler = start_plainly) -> Path:
    """The library of a generated file; compiled if the cache has none of it for this machine.

    Two processes may do this at once. Raises MissingDependency without a compiler, or where the
    compiler fails: that is never the kernel's fault.
    """
    runtime = ensure_runtime()
    flags = KERNEL_FLAGS if source.count("\n") < LARGE_SOURCE_LINES else ("-O1",)
    folder = cache_folder("virtual-gpu") / f"kernel-{_key(source, runtime.parent.name, *flags)}"
    if not in_cache(folder):
        with new_entry(folder) as scratch:
            (scratch / "kernel.c").write_text(source)
            headers = f"-I{source_folder()}"
            _compile(
                [
                    *_machine_flags(),
                    *flags,
                    headers,
                    "kernel.c",
                    "-x",
                    "none",
                    str(runtime),
                    "-shared",
                    "-lm",
                    "-lpthread",
                    "-o",
                    LIBRARY,
                ],
                scratch,
                start,
            )
    return folder / LIBRARY


def ensure_runtime() -> Path:
    """The object of the runtime: the same for all kernels."""
    texts = [(source_folder() / name).read_text() for name in (*_RUNTIME, *_HEADERS)]
    folder = cache_folder("virtual-gpu") / f"simt-{_key(*texts, *RUNTIME_FLAGS)}"
    if not in_cache(folder):
        with new_entry(folder) as scratch:
            # g++ takes a second .c file for C++ unless each is announced.
            sources = [
                word for name in _RUNTIME for word in ("-x", "c", str(source_folder() / name))
            ]
            _compile([*_machine_flags(), *RUNTIME_FLAGS, "-c", *sources], scratch)
            objects = [name.replace(".c", ".o") for name in _RUNTIME]
            _compile(["-r", "-nostdlib", *objects, "-o", "simt.o"], scratch)
    return folder / "simt.o"


def source_folder() -> Path:
    """The engine's C sources, and the headers that translated kernels include."""
    return Path(str(files("astra_vgpu.c_engine")))


def _machine_flags() -> tuple[str, ...]:
    if platform.machine() in ("x86_64", "AMD64"):
        return COMMON_FLAGS
    return tuple(flag for flag in COMMON_FLAGS if flag != "-march=native")


def _key(*texts: str) -> str:
    """What an object depends on: its text, the compiler, and the CPU that it was made for."""
    digest = hashlib.sha256("\0".join([*texts, *_machine_flags(), *machine()]).encode())
    return digest.hexdigest()[:24]


@functools.cache
def machine() -> tuple[str, ...]:
    """The compiler and this CPU's abilities: objects are not for other machines."""
    compiler = find_compiler().resolve()
    file = compiler.stat()
    return str(compiler), f"{file.st_size} {file.st_mtime_ns}", platform.machine(), _cpu_flags()


def _cpu_flags() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compile(arguments: list[str], folder: Path, start: StartCompiler = start_plainly) -> None:
    compiler = str(find_compiler())
    status, output = start([compiler, *arguments], folder)
    if status:
        excerpt = "\n".join(output.splitlines()[:8])
        raise MissingDependency(f"{compiler} cannot build the virtual GPU's C engine:\n{excerpt}")
