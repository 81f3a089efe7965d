"""A candidate's object file, proven to be that of the author's text.

nvcc gets the text that is made of the guard's tokens (build/nvcc.py). Who builds the
author's own text with the same nvcc and flags shall get the same: both are compiled here, one after
the other in one folder and under one name, as nvcc puts both into the names it makes, and the
object files are compared byte for byte: host code, machine code and PTX.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build import extension_headers
from astra_chat.tools.build.bound_launcher import launcher_text, needs_launcher
from astra_chat.tools.build.nvcc import (
    Unreadable,
    built_text,
    compiler_sandbox,
    header_text,
    make_include_folders,
)
from astra_chat.tools.build.tvm_ffi_binding import compile_cpp
from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.types import candidate_id, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import Toolkit

SOURCE, OBJECT, AUTHORS_OBJECT = "kernel.cu", "kernel.o", "kernel.author.o"
BUILDS = 5
"""Most builds of each text. Eight builds of one recorded kernel by nvcc 13.0 gave three objects."""


@dataclass(frozen=True)
class Objects:
    """Object files of one candidate."""

    built: Path
    """Object file of the text that nvcc gets when a candidate is judged."""
    author: Path
    """Object file of the author's text."""

    @property
    def equal(self) -> bool:
        return self.built.read_bytes() == self.author.read_bytes()


def proven_object(task: Task, source: str, toolkit: Toolkit, arch: str) -> Path:
    """Object file of a candidate, with the flags it was judged by: machine code and PTX.

    Raises BadInput where the author's text gives another one, or can be read in more than one way,
    and MissingDependency where it does not compile.
    """
    objects = both_objects(task, source, toolkit, arch)
    if not objects.equal:
        raise BadInput(
            f"candidate {candidate_id(source)} is not exported: with the same nvcc and"
            " flags, the source as its author wrote it compiles to code that differs from"
            " the code that was judged"
        )
    return objects.built


def both_objects(task: Task, source: str, toolkit: Toolkit, arch: str) -> Objects:
    """Both object files, from the cache or compiled now. Raises as proven_object."""
    source = cuda_source(source, task, arch)
    try:
        built = built_text(source)
    except Unreadable as why:
        raise BadInput(f"candidate {candidate_id(source)} cannot be compiled: {why}") from None
    headers = task.header_texts()
    ours = extension_headers.header_texts() if task.binding else {}
    launcher = launcher_text(task, source) if needs_launcher(task, source) else ""
    plain = headers if ours else {name: header_text(text) for name, text in headers.items()}
    texts = {**plain, **ours, SOURCE: built + launcher}
    authors = {**headers, **ours, SOURCE: source + launcher}
    virtual = arch.replace("sm_", "compute_")
    command = [
        str(toolkit.nvcc),
        *task.flags,
        f"-gencode=arch={virtual},code=[{arch},{virtual}]",
        f"-ccbin={toolkit.cxx}",
        "-Xcompiler=-fPIC",
        *(f"-I{folder}" for folder in task.include),
        *(extension_headers.FLAGS if task.binding else ()),
        f"-I{toolkit.include_dir}",
        "-keep",
        "-keep-dir",
        ".",
        "-c",
        SOURCE,
        "-o",
        OBJECT,
    ]
    named = [part for one in (texts, authors) for text in one.items() for part in text]
    key = sha256_of("\0".join([toolkit.version, *command, *named]))[:32]
    final = cache_folder("objects") / key
    if not in_cache(final):
        with new_entry(final) as scratch:
            judged, written = _pair(command, texts, authors, scratch)
            (scratch / OBJECT).write_bytes(judged)
            (scratch / AUTHORS_OBJECT).write_bytes(written)
    return Objects(final / OBJECT, final / AUTHORS_OBJECT)


def _pair(
    command: list[str], texts: dict[str, str], authors: dict[str, str], scratch: Path
) -> tuple[bytes, bytes]:
    """Returns what nvcc makes of both texts: the same where a build of one is a build of the
    other."""
    made = set[bytes](), set[bytes]()
    for _ in range(BUILDS):
        for of_text, text in zip(made, (authors, texts), strict=True):
            _compile(command, text, scratch)
            of_text.add((scratch / OBJECT).read_bytes())
            if texts == authors:
                return min(of_text), min(of_text)
        if both := made[0] & made[1]:
            return min(both), min(both)
    return min(made[1]), min(made[0])


def _compile(command: list[str], texts: dict[str, str], scratch: Path) -> None:
    """Leaves the object file and the texts in `scratch`, and nothing else that nvcc kept."""
    for name, text in texts.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(text)
    make_include_folders(command, scratch)
    before = {path.name for path in scratch.iterdir()}
    # A resumed run's source and flags may be anybody's, as those of a build are.
    compile_cpp(command, scratch, compiler_sandbox(scratch, ()))
    for path in scratch.iterdir():
        if path.name not in (*before, OBJECT) and path.is_file():
            path.unlink()
