"""A user's kernel file and what it includes of its own project, as files of a task folder.

The preprocessor says what is included, on both sides of nvcc and for no other platform. Files keep
their places relative to each other, under `project/`, so that nothing of them is changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.build import extension_headers
from astra_chat.tools.task.folder import HEADER_NAME
from astra_vgpu.ground.errors import BadInput, reading
from astra_vgpu.ground.toolkit import find_toolkit

FOLDER = "project"
"""Folder of the task in which the project's headers lie."""
STAND_INS = f"{FOLDER}/stand_ins"
"""Folder of headers instead of PyTorch's that Astra has none for."""
ANCESTORS = 5
"""Folders above the file in which its includes are looked for, up to the repository's own."""
MOST_ROUNDS = 12
PREPROCESS_TIMEOUT_S = 60.0
_NVCC = ("-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__={}", "-D__CUDACC_VER_MINOR__={}")
_SIDES = ((), ("-D__CUDA_ARCH__=900",))
_OTHERS = (
    "USE_ROCM",
    "__HIP_PLATFORM_AMD__",
    "__HIPCC__",
    "GGML_USE_HIP",
    "GGML_USE_MUSA",
    "USE_MUSA",
)
"""Macros of other platforms: never defined."""
_LIBRARIES = (
    *(("cutlass/", "of CUTLASS"), ("cute/", "of CUTLASS"), ("cudnn", "of cuDNN")),
    *(("fmt/", "of fmt"), ("NvInfer", "of TensorRT")),
)
"""How headers of libraries begin."""
NEAR = 2
"""Includes from the file to a header that is read."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)', re.MULTILINE)
_DEPENDENCY = re.compile(r"(?:\\.|[^\s\\])+")


@dataclass(frozen=True)
class Search:
    """Where headers are looked for, and macros that the project's build defines."""

    folders: tuple[Path, ...] = ()
    root: Path | None = None
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Project:
    """The source, and the headers that lie beside it."""

    source: str
    headers: dict[str, str] = field(default_factory=dict)
    """Text by name in the task's folder."""
    include: tuple[str, ...] = ()
    """Folders of them in which names are looked for."""
    defines: tuple[str, ...] = ()


def project_of(
    files: Sequence[Path],
    folders: Sequence[Path] = (),
    root: Path | None = None,
    defines: Sequence[str] = (),
) -> Project:
    """The files as one source, and what they include. `folders` are as nvcc's -I; under `root` all
    is looked for that is nowhere else. Raises BadInput with every header that is missing."""
    searched = [folder.resolve() for folder in (*folders, *([root] if root else ()))]
    for folder in searched:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder")
    source = "\n".join(text_of(path) for path in files)
    near = [folder for path in files for folder in _near(path.resolve())]
    found, used, lacking = _included(
        files, [folder.resolve() for folder in folders], near, root, defines
    )
    places = {path.resolve().parent for path in files}
    top = Path(os.path.commonpath([*places, *(p.parent for p in found), *used]))
    headers = {_name(path, top): text_of(path) for path in sorted(found)}
    own = [*dict.fromkeys(path.resolve().parent for path in files), *used]
    include = tuple(dict.fromkeys(_folder(folder, top) for folder in own)) if headers else ()
    if lacking:
        headers |= {f"{STAND_INS}/{name}": extension_headers.stand_in(name) for name in lacking}
        include = (*include, STAND_INS)
    return Project(source, headers, include, tuple(f"-D{name}" for name in defines))


def near_headers(source: str, headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those that the source includes, and that these include: what is further away is a library,
    whose text is not read for functions."""
    wanted, seen = [source], set[str]()
    for _ in range(NEAR):
        included = {name for text in wanted for name in _INCLUDE.findall(text)}
        ends = tuple(f"/{name.removeprefix('./').replace('../', '')}" for name in included)
        new = [name for name in headers if name not in seen and f"/{name}".endswith(ends)]
        seen |= {*new}
        wanted = [headers[name] for name in new]
        yield from zip(new, wanted, strict=True)


def _folder(folder: Path, top: Path) -> str:
    return "/".join([FOLDER, *folder.relative_to(top).parts])


def _name(path: Path, top: Path) -> str:
    name = f"{_folder(path.parent, top)}/{path.name}"
    if not re.fullmatch(HEADER_NAME, name):
        raise BadInput(
            f"the name {path} cannot be used for a header: use letters, digits and ._+- only"
        )
    return name


def text_of(path: Path) -> str:
    """Raises BadInput where it cannot be read."""
    with reading(path):
        return path.read_text()


def _near(path: Path) -> Iterator[Path]:
    """Folders above a file, up to that of its repository."""
    for folder in list(path.parents)[:ANCESTORS]:
        yield folder
        if (folder / ".git").exists():
            return


def _included(
    files: Sequence[Path],
    folders: list[Path],
    near: Sequence[Path],
    root: Path | None,
    defines: Sequence[str],
) -> tuple[set[Path], list[Path], list[str]]:
    """The project's headers, the folders in which they were found, in the order of -I, and those
    of PyTorch's that need a stand-in."""
    for _ in range(MOST_ROUNDS):
        found, missing = set[Path](), list[str]()
        for path in files:
            ours, lacking = _dependencies(path, folders, defines)
            found |= ours
            missing += [name for name in lacking if name not in missing]
        homes = [_home(name, near, root or _repository(files[0])) for name in missing]
        new = [home for home in dict.fromkeys(homes) if home and home not in folders]
        if not new:
            break
        folders = [*folders, *new]
    lacking = [name for name in missing if extension_headers.stand_in(name)]
    if missing := [name for name in missing if name not in lacking]:
        raise BadInput(f"{files[0].name}: {_missing(missing)}")
    return found - {path.resolve() for path in files}, folders, lacking


def _missing(names: Sequence[str]) -> str:
    """What is missing, and what to do about it."""
    if torch := sorted(filter(extension_headers.is_torchs, names)):
        return (
            f"{', '.join(torch)}: code of PyTorch's own, which Astra lacks; copy the kernel,"
            " with a function that launches it with pointers and numbers, into a file of its own"
        )
    of = {library for name in names for word, library in _LIBRARIES if name.startswith(word)}
    known = f" ({', '.join(sorted(of))})" if of else ""
    return (
        f"headers are missing: {', '.join(sorted(names))}{known}: give their folders with -I, or a"
        " folder in which to search with --root"
    )


def _repository(file: Path) -> Path | None:
    """The root of the repository that a file is in."""
    return next((p for p in file.resolve().parents if (p / ".git").exists()), None)


def _home(name: str, near: Sequence[Path], root: Path | None) -> Path | None:
    """The folder from which `name` leads to a file. PyTorch's own headers are not looked for: no
    kernel is compiled with them."""
    if extension_headers.is_torchs(name):
        return None
    for folder in near:
        for place in (folder, folder / "include", folder / "csrc", folder / "src"):
            if (place / name).is_file():
                return place
    if root is None:
        return None
    last = name.rsplit("/", 1)[-1]
    ends = [p for p in sorted(root.resolve().rglob(last)) if p.as_posix().endswith(f"/{name}")]
    best = min(ends, key=lambda path: (-_shared(path, near), len(path.parts)), default=None)
    return best and Path(best.as_posix()[: -len(name) - 1])


def _shared(path: Path, near: Sequence[Path]) -> int:
    """How many of the nearest folders above a kernel a header is under."""
    return sum(path.is_relative_to(folder) for folder in near)


def _dependencies(
    path: Path, folders: Sequence[Path], defines: Sequence[str]
) -> tuple[set[Path], list[str]]:
    """Files of the project that a file includes, and the names of those that are nowhere."""
    toolkit = find_toolkit()
    major, minor = toolkit.version.split(".")[:2]
    with tempfile.TemporaryDirectory(prefix="astra-new-") as scratch:
        for name, text in extension_headers.header_texts().items():
            place = Path(scratch) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        ours, system = Path(scratch).resolve(), [toolkit.include_dir.resolve()]
        found, missing = set[Path](), list[str]()
        for side in _SIDES:
            command = [
                str(toolkit.cxx),
                *("-x", "c++", "-std=c++17", "-E", "-M", "-MG", "-w"),
                *(flag.format(major if "MAJOR" in flag else minor) for flag in _NVCC),
                *side,
                *(f"-U{name}" for name in _OTHERS),
                *(f"-D{name}" for name in defines),
                *("-include", "cuda_runtime.h"),
                f"-I{ours / extension_headers.FOLDER}",
                *(f"-I{folder}" for folder in folders),
                f"-I{toolkit.include_dir}",
                f"-I{toolkit.include_dir / 'cccl'}",
                str(path.resolve()),
            ]
            for name in _listed(command, path):
                place = Path(name)
                if not place.is_absolute() or not place.exists():
                    missing += [name] * (name not in missing)
                elif not _is_system(place, [ours, *system]):
                    found.add(place.resolve())
    return found, missing


def _listed(command: Sequence[str], path: Path) -> list[str]:
    """The dependencies that the preprocessor writes."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PREPROCESS_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"{path}: the preprocessor did not finish") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        first = next((line for line in lines if "error:" in line), lines[0])
        macro = "; -D NAME[=VALUE] defines a macro that your project's build defines"
        raise BadInput(f"{path}: {first}{macro if '#error' in first else ''}")
    words = _DEPENDENCY.findall(done.stdout.replace("\\\n", " "))
    return [re.sub(r"\\(.)", r"\1", word) for word in words if not word.endswith(".o:")]


def _is_system(path: Path, ours: Sequence[Path]) -> bool:
    real = path.resolve()
    compilers = "/lib/gcc/" in real.as_posix() or "/include/c++/" in real.as_posix()
    return (
        compilers
        or real.is_relative_to("/usr")
        or any(real.is_relative_to(folder) for folder in ours)
    )
