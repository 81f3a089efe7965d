"""Finds the CUDA toolkit, the host compiler and NVIDIA's tools, or says how to install them.

Needs the standard library only: set-up runs `python -m astra_vgpu.ground.toolkit` before
anything is installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from astra_vgpu.ground.errors import MissingDependency

OLDEST_NVCC = (12, 0)
"""The first release that builds for Hopper (sm_90) with C++17 throughout."""

PYPI_TOOLKIT = "cuda-toolkit[nvcc,cudart,crt,nvvm,cccl]==13.0.*"
PYPI_INSPECTORS = ("nvidia-cuda-cuobjdump>=13,<14", "nvidia-cuda-nvdisasm>=13,<14")

_HOW_TO_GET = {
    "g++": "install a C++17 compiler, for example: apt-get install g++",
    "nvcc": f"pip install '{PYPI_TOOLKIT}', or install CUDA {OLDEST_NVCC[0]} or newer"
    " and set CUDA_HOME to its folder",
    "ninja": "pip install ninja",
    "cuobjdump": f"pip install '{PYPI_INSPECTORS[0]}'",
    "nvdisasm": f"pip install '{PYPI_INSPECTORS[1]}'",
    "ncu": "install NVIDIA Nsight Compute (part of the CUDA toolkit) and put its folder on PATH",
    "compute-sanitizer": "install NVIDIA's Compute Sanitizer (part of the CUDA toolkit)"
    " and put its folder on PATH",
}


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit that answers, and the host compiler that goes with it."""

    nvcc: Path
    include_dir: Path
    """Holds cuda_runtime.h."""
    lib_dir: Path
    """Holds libcudart_static.a: link with -L. nvcc's own default can name a folder that is not."""
    cxx: Path
    version: str
    """nvcc's release and build: "13.0.88"."""

    @property
    def root(self) -> Path:
        """Folder of bin, include and nvvm."""
        return self.nvcc.parent.parent


@cache
def find_toolkit() -> Toolkit:
    """The first usable nvcc of PATH, CUDA_HOME, CUDA_PATH and this environment's PyPI packages.

    Raises MissingDependency saying what was tried and what to install.
    """
    cxx = find_compiler()
    refused: list[str] = []
    for nvcc in _nvcc_places():
        try:
            return _inspect(nvcc, cxx)
        except _UnusableError as error:
            refused.append(f"{nvcc}: {error}")
    tried = f" ({'; '.join(refused)})" if refused else ""
    raise MissingDependency(
        f"no usable nvcc on PATH, in CUDA_HOME, or among this environment's packages{tried}:"
        f" {_HOW_TO_GET['nvcc']}"
    )


@cache
def find_compiler() -> Path:
    """$CXX or g++. Raises MissingDependency."""
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        asked = os.environ.get("CXX")
        named = f"$CXX names {asked}, which does not exist" if asked else "no g++ on PATH"
        raise MissingDependency(f"{named}: {_HOW_TO_GET['g++']}")
    return Path(compiler)


@cache
def find_tool(name: str) -> Path:
    """A tool of NVIDIA's by name: cuobjdump, nvdisasm, ncu, compute-sanitizer.

    Raises MissingDependency saying how to get it.
    """
    for path in _tool_places(name):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise MissingDependency(f"no {name} on this machine: {_HOW_TO_GET.get(name, 'put it on PATH')}")


@cache
def find_ninja() -> Path:
    """The first ninja that runs: of the PyPI package, beside this Python, or on PATH.

    Raises MissingDependency. Looks for the program: the package may be there without it.
    """
    refused: list[str] = []
    for path in _ninja_places():
        try:
            _answer([str(path), "--version"])
        except _UnusableError as error:
            refused.append(f"{path}: {error}")
        else:
            return path
    tried = f" ({'; '.join(refused)})" if refused else ""
    raise MissingDependency(
        f"no usable ninja beside this Python or on PATH{tried}: {_HOW_TO_GET['ninja']}"
    )


@cache
def host_tool_versions() -> dict[str, str]:
    """Versions of nvcc and the host compiler, for transcripts. Raises MissingDependency."""
    toolkit = find_toolkit()
    try:
        answer = _answer([str(toolkit.cxx), "-dumpfullversion", "-dumpversion"])
    except _UnusableError as error:
        raise MissingDependency(f"{toolkit.cxx}: {error}: {_HOW_TO_GET['g++']}") from None
    return {"nvcc": toolkit.version, toolkit.cxx.name: answer.strip()}


class _UnusableError(Exception):
    """An nvcc that is there and cannot be used, and why."""


def _nvcc_places() -> Iterator[Path]:
    if on_path := shutil.which("nvcc"):
        yield Path(on_path)
    for folder in (*_cuda_homes(), *_pypi_roots()):
        nvcc = folder / "bin" / "nvcc"
        if nvcc.is_file():
            yield nvcc


def _cuda_homes() -> list[Path]:
    return [Path(os.environ[n]) for n in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(n)]


def _pypi_roots() -> list[Path]:
    """Folders like site-packages/nvidia/cu13 of every folder that Python imports from."""
    places = (Path(entry, "nvidia") for entry in sys.path if entry)
    return [root for nvidia in places for root in sorted(nvidia.glob("cu[0-9]*"), reverse=True)]


def _tool_places(name: str) -> Iterator[Path]:
    if on_path := shutil.which(name):
        yield Path(on_path)
    try:
        roots = [find_toolkit().root]
    except MissingDependency:
        roots = []
    for root in (*_cuda_homes(), *roots, *_pypi_roots()):
        yield root / "bin" / name
        yield root / name / name
    vendor = Path("/opt/nvidia")
    yield from sorted(vendor.glob(f"nsight-compute/*/{name}"), reverse=True)
    yield from sorted(Path("/usr/local").glob(f"cuda*/bin/{name}"), reverse=True)


def _ninja_places() -> Iterator[Path]:
    folders = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    with contextlib.suppress(ImportError):
        from ninja import BIN_DIR

        folders.insert(0, Path(BIN_DIR))
    for folder in dict.fromkeys(folders):
        path = folder / "ninja"
        if path.is_file() and os.access(path, os.X_OK):
            yield path.absolute()
    if on_path := shutil.which("ninja"):
        yield Path(on_path).absolute()


def _inspect(nvcc: Path, cxx: Path) -> Toolkit:
    """Ask nvcc for its folders: the one on PATH may be a wrapper that lies anywhere."""
    release = re.search(r"release \S+, V([\d.]+)", _answer([str(nvcc), "--version"]))
    if release is None:
        raise _UnusableError("it does not report its version")
    version = release.group(1)
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_NVCC:
        oldest = ".".join(map(str, OLDEST_NVCC))
        raise _UnusableError(f"version {version} is older than {oldest}")
    folders = dict(
        re.findall(
            r"^#\$ (TOP|INCLUDES|LIBRARIES)=(.*)$",
            _answer([str(nvcc), "-dryrun", "-E", "-x", "cu", os.devnull]),
            re.MULTILINE,
        )
    )
    if "TOP" not in folders:
        raise _UnusableError("nvcc -dryrun does not report its folder")
    top = Path(folders["TOP"].strip()).resolve()
    include_dir = _first_with(
        "cuda_runtime.h", _flag_folders(folders, "INCLUDES", "-I"), top / "include"
    )
    lib_dir = _first_with(
        "libcudart_static.a", _flag_folders(folders, "LIBRARIES", "-L"), top / "lib"
    )
    return Toolkit(top / "bin" / "nvcc", include_dir, lib_dir, cxx, version)


def _flag_folders(settings: dict[str, str], key: str, flag: str) -> list[Path]:
    flags = shlex.split(settings.get(key, ""))
    return [Path(word.removeprefix(flag)) for word in flags if word.startswith(flag)]


def _first_with(name: str, folders: list[Path], fallback: Path) -> Path:
    for folder in (*folders, fallback):
        if (folder / name).is_file():
            return folder.resolve()
    raise _UnusableError(f"{name} is in none of its folders")


def _answer(command: list[str]) -> str:
    """Standard output and error of a short question to a tool."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnusableError(f"it does not run: {error}") from None
    if done.returncode:
        text = " ".join((done.stderr or done.stdout).split())
        raise _UnusableError(f"it does not run: {text[:200]}")
    return done.stdout + done.stderr


def main() -> int:
    """Print the toolkit in one line; exit 3, saying why, where there is none."""
    try:
        toolkit = find_toolkit()
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return MissingDependency.exit_code
    print(f"nvcc {toolkit.version} at {toolkit.nvcc}, host compiler {toolkit.cxx}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
