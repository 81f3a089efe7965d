"""Builds the fake CUDA runtime (cudart/) with the host compiler on first use."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from astra_vgpu.ground.cache import in_cache, new_entry
from astra_vgpu.ground.errors import MissingDependency

LIBRARY = "libvcudart.so"
HEADER = "vcudart.h"
_SOURCES = "astra_vgpu.cudart"
STAND_INS = (
    "libcudart.so",
    "libcudart_static.a",
    "libcublas.so",
    "libcublasLt.so",
    "libcurand.so",
)
"""Linker scripts that lead to it by the names of NVIDIA's."""
COMPILE_TIMEOUT_S = 120.0
EMPTY: Mapping[str, str] = {}


def ensure_runtime(
    cxx: str | Path, include_dir: Path, cache: Path, defines: Mapping[str, str] = EMPTY
) -> Path:
    """The folder of libvcudart.so, to be given to the linker as -L; built if `cache` has none.

    `include_dir` holds cuda_runtime_api.h: the layouts of CUDA's structures come from there. A
    library linked with it names it by its full path, so it is found again without a search path.
    `defines`: texts for cudart/start.c. Two processes may do this at once. Raises MissingDependency
    where it cannot be built.
    """
    sources = {p.name: p.read_bytes() for p in map(Path, _source_files())}
    texts = tuple(f"-D{name}={json.dumps(text)}" for name, text in defines.items())
    folder = cache.absolute() / f"cudart-{_key(str(cxx), include_dir, sources, texts)}"
    if in_cache(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with new_entry(folder) as scratch:
            _compile(str(cxx), include_dir, sources, texts, scratch, folder / LIBRARY)
            for name in STAND_INS:
                (scratch / name).write_text(f"INPUT({folder / LIBRARY})\n")
    except OSError as error:
        raise MissingDependency(f"the virtual GPU cannot write to its cache: {error}") from None
    return folder


def header_text() -> str:
    """HEADER, which declares struct vcudart_host."""
    return (files(_SOURCES) / HEADER).read_text()


def _source_files() -> list[str]:
    return sorted(
        str(p) for p in files(_SOURCES).iterdir() if p.name.endswith((".c", ".h", ".map"))
    )


def _key(cxx: str, include_dir: Path, sources: dict[str, bytes], texts: tuple[str, ...]) -> str:
    """What the built library depends on; the headers by name, size and date."""
    digest = hashlib.sha256("\0".join((cxx, str(include_dir), *texts)).encode())
    for header in ("cuda_runtime_api.h", "driver_types.h"):
        try:
            status = (include_dir / header).stat()
        except OSError:
            raise MissingDependency(
                f"no {header} in {include_dir}: the CUDA toolkit's headers are needed"
            ) from None
        digest.update(f"{header} {status.st_size} {status.st_mtime_ns}".encode())
    for name, text in sources.items():
        digest.update(name.encode() + b"\0" + text)
    return digest.hexdigest()[:16]


def _compile(
    cxx: str,
    include_dir: Path,
    sources: dict[str, bytes],
    texts: tuple[str, ...],
    scratch: Path,
    final: Path,
) -> None:
    for name, text in sources.items():
        (scratch / name).write_bytes(text)
    # g++ takes a second .c file for C++ unless each is announced.
    units = [word for name in sources if name.endswith(".c") for word in ("-x", "c", name)]
    command = [
        cxx,
        "-std=gnu11",
        "-O2",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        *texts,
        "-I",
        str(include_dir),
        *units,
        "-x",
        "none",
        "-Wl,--version-script=vcudart.map",
        "-Wl,--as-needed",
        f"-Wl,-soname,{final}",
        "-o",
        LIBRARY,
        "-ldl",
        "-lpthread",
    ]
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            capture_output=True,
            text=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise MissingDependency(
            f"compiler {cxx} not found: install one, for example: apt-get install g++"
        ) from None
    except subprocess.TimeoutExpired:
        raise MissingDependency(f"{cxx} did not finish within {COMPILE_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        log = "\n".join(done.stderr.splitlines()[:8])
        raise MissingDependency(f"{cxx} cannot build the virtual GPU's CUDA runtime:\n{log}")
