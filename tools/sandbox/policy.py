"""SandboxPolicy: which files, devices and limits a child process gets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from astra_chat.tools.sandbox import landlock
from astra_chat.tools.sandbox.isolation import bubblewrap, isolation
from astra_vgpu import ground

SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/nix/store",
    "/sys",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/nvidia",
)
"""Readable by every child: programs, libraries, the driver's; of /etc nothing about users."""
PROC = (
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/modules",
    "/proc/sys",
    "/proc/version",
)
HARMLESS = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
FILE_BYTES = 64 * 2**30


@dataclass(frozen=True)
class SandboxPolicy:
    """Folders and files that a child may reach beside the system's, and its limits."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    """Folders; the first is the child's TMPDIR."""
    gpu: bool = False
    """Whether it may open the devices of NVIDIA's driver."""
    network: bool = False
    """Nsight Compute talks to the process that it watches through a socket."""
    privileges: bool = False
    """Root stays root: performance counters need it."""
    memory_bytes: int | None = None
    """Addresses. None suits CUDA programs, which reserve more than any machine has."""
    file_bytes: int = FILE_BYTES

    def command(self, argv: Sequence[str]) -> list[str]:
        """`argv` wrapped in this machine's sandbox; `argv[0]` must be an absolute path."""
        launch = [sys.executable, "-m", "astra_chat.tools.sandbox.launch", self.order(), *argv]
        bwrap = bubblewrap() if isolation() == "bubblewrap" else None
        return [*self._namespaces(bwrap), *launch] if bwrap else launch

    def environment(self) -> dict[str, str]:
        """What the child's environment holds beside the allow-list."""
        # torch asks for the user's name, and the file of users cannot be read in there.
        variables = {
            "PYTHONPATH": os.pathsep.join([*map(str, package_roots()), *_python_path()]),
            "USER": "astra",
        }
        if self.write:
            variables["TMPDIR"] = str(self.write[0])
        return variables

    def order(self) -> str:
        """For `launch`: JSON."""
        level = isolation()
        return json.dumps(
            {
                "landlock": level != "none" and landlock.abi() > 0,
                "seccomp": level != "none",
                "network": self.network,
                "gpu": self.gpu,
                "privileges": self.privileges,
                "memory_bytes": self.memory_bytes,
                "file_bytes": self.file_bytes,
                "read": [*self._readable(), *PROC],
                "write": self._writable(),
                "list": [*map(str, package_roots())],
            }
        )

    def _readable(self) -> list[str]:
        return [*SYSTEM, *python_folders(), *map(str, self.read)]

    def _writable(self) -> list[str]:
        return [*HARMLESS, *(self._driver() if self.gpu else ()), *map(str, self.write)]

    def _driver(self) -> Iterator[str]:
        """The CUDA driver names its threads in /proc: without that cuInit fails with error 304."""
        yield from gpu_devices()
        # Nsight Compute starts the process that it watches: a process id not known in advance.
        yield "/proc" if self.network else "/proc/self/task"

    def _namespaces(self, bwrap: str) -> list[str]:
        """bubblewrap's words: a root that holds the readable and the writable, and nothing else."""
        options = ["--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
        if self.network:
            options.append("--share-net")
        for path in outermost(self._readable()):
            options += ["--ro-bind-try", path, path]
        for path in gpu_devices() if self.gpu else ():
            options += ["--dev-bind-try", path, path]
        for folder in map(str, self.write):
            options += ["--bind", folder, folder]
        return [bwrap, *options, "--"]


def outermost(paths: Sequence[str]) -> list[str]:
    """`paths`, resolved ones added, less those inside others: these are seen with them."""
    everything = {Path(p) for path in paths for p in (path, Path(path).resolve())}
    kept: list[Path] = []
    for path in sorted(everything, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return [str(path) for path in kept]


@cache
def python_folders() -> tuple[str, ...]:
    """Where this Python, its packages and Astra itself lie; neither home nor the checkout."""
    here = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    here |= {Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    here |= {Path(p) for p in (*_python_path(), *_library_path()) if _is_narrow(Path(p))}
    chat, virtual_gpu = package_roots()
    package = chat / "astra_chat"
    here |= {package, *(package / name for name in ("tools", "agents", "sglang_kernels"))}
    here.add(virtual_gpu / "astra_vgpu")
    return tuple(sorted({str(p) for path in here for p in (path, path.resolve())}))


def gpu_devices() -> tuple[str, ...]:
    """Device files of NVIDIA's driver."""
    return tuple(sorted(str(path) for path in Path("/dev").glob("nvidia*")))


def package_roots() -> tuple[Path, Path]:
    """The folders that `import astra_chat` and `import astra_vgpu` find them in: links are not
    followed."""
    return Path(__file__).absolute().parents[3], Path(ground.__file__).absolute().parents[2]


def _python_path() -> Iterator[str]:
    return filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


def _library_path() -> Iterator[str]:
    named = (os.environ.get("LD_LIBRARY_PATH", ""), os.environ.get("CUDA_HOME", ""))
    return filter(None, os.pathsep.join(named).split(os.pathsep))


def _is_narrow(path: Path) -> bool:
    """Neither the home folder, nor one that holds it, nor a checkout."""
    path, home = path.resolve(), Path.home().resolve()
    return not home.is_relative_to(path) and not (path / "pyproject.toml").is_file()
