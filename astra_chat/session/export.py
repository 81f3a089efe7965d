"""The winner of a run as something to use: a tvm-ffi module, how to load it, and an example."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from astra_chat.session.export_example import example_source
from astra_chat.session.export_readme import readme
from astra_chat.session.torch_operator import operator_source
from astra_chat.tools.build.built_text import Unreadable, built_text
from astra_chat.tools.build.proven_object import proven_object
from astra_chat.tools.build.tvm_ffi_binding import (
    compile_cpp,
    ensure_binding,
    tvm_ffi_folder,
)
from astra_chat.tools.language import is_extension, is_triton, require_launcher, suffix_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.triton.translated import cuda_source
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.run_folder import (
    BEST_SOURCE,
    BUILT_SOURCE,
    EXAMPLE,
    INPUTS,
    PART_OF_SOURCE,
    README,
    REFUSED_SOURCE,
    TORCH_OPERATOR,
    TRITON_SOURCE,
    module_file,
)
from astra_vgpu.ground.toolkit import Toolkit, find_toolkit


def leave_source(source: str | None, folder: Path, ours: Container[str]) -> None:
    """Write best.cu, the author's text, and best.built.cu, what nvcc got of it, each whole or not
    at all; of a Triton candidate best.py. Take away what an earlier session left there of another
    language, or without a best candidate, if it is one of `ours`, the run's candidates. Raises
    OSError."""
    triton = source is not None and is_triton(source)
    for name in (BEST_SOURCE, TRITON_SOURCE):
        path, other = folder / name, triton == (name == BEST_SOURCE)
        if (source is None or other) and path.is_file():
            if candidate_id(path.read_text(errors="replace")) in ours:
                path.unlink()
                (folder / BUILT_SOURCE).unlink(missing_ok=True)
    if source is None:
        return
    _leave(source, folder / (TRITON_SOURCE if triton else BEST_SOURCE))
    if triton:
        return
    if is_extension(source):  # nobody built its text alone
        (folder / BUILT_SOURCE).unlink(missing_ok=True)
        return
    try:
        _leave(built_text(source), folder / BUILT_SOURCE)
    except Unreadable:  # the guard refuses it, so nobody built it
        (folder / BUILT_SOURCE).unlink(missing_ok=True)


def leave_refused(source: str, folder: Path) -> str:
    """Write a winner that its confirmation refused beside the transcript; returns the file's name.
    Raises OSError."""
    name = REFUSED_SOURCE.format(candidate_id(source)) + suffix_of(source)
    _leave(source, folder / name)
    return name


def _leave(text: str, path: Path) -> None:
    scratch = path.parent / PART_OF_SOURCE
    try:
        scratch.unlink(missing_ok=True)
        with scratch.open("x") as file:
            file.write(text)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def export_best(task: Task, source: str, folder: Path, *, arch: str, origin: str = "") -> None:
    """Write best.cu, best.built.cu, <entry>.so, README.md and torch_op.py of a candidate into
    `folder`; and load_example.py with reference.py, which draws its inputs, where the task has one:
    its reference may be a function of PyTorch (`reference` of task.toml). Of a Triton candidate
    best.cu is its CUDA text, which needs no Triton, and best.py the author's. README.md says
    `origin`: which run found the kernel, and how fast it is.

    The module runs on GPUs of `arch` and, from its PTX, on newer ones; CUDA's runtime is linked
    into it, so neither a toolkit nor Astra is needed to load it, only tvm-ffi and a driver.
    Raises MissingDependency where nvcc, the host compiler or tvm-ffi is missing, and BadInput where
    the author's text compiles to other code than what was judged (build/proven_object.py), and for
    a torch extension, which has no launcher.
    """
    require_launcher(source)
    toolkit = find_toolkit()
    folder.mkdir(parents=True, exist_ok=True)
    if is_triton(source):
        _leave(source, folder / TRITON_SOURCE)
        source = cuda_source(source, task, arch)
    kernel = proven_object(task, source, toolkit, arch)
    leave_source(source, folder, ())
    cudart = [f"-L{toolkit.lib_dir}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    link_module(
        [kernel, ensure_binding(task, toolkit)], folder / module_file(task.entry), toolkit, cudart
    )
    (folder / README).write_text(readme(task, source, arch, toolkit.version, origin))
    (folder / TORCH_OPERATOR).write_text(operator_source(task))
    if (task.folder / INPUTS).is_file():
        (folder / EXAMPLE).write_text(example_source(task))
        (folder / INPUTS).write_text((task.folder / INPUTS).read_text())


def prepare_export(task: Task, source: str, arch: str) -> None:
    """Leave in the cache what `export_best` compiles of a candidate: it takes most of its time.
    Raises as that does."""
    require_launcher(source)
    toolkit = find_toolkit()
    ensure_binding(task, toolkit)
    proven_object(task, source, toolkit, arch)


def link_module(objects: list[Path], module: Path, toolkit: Toolkit, cudart: list[str]) -> None:
    """Link kernel and binding; of the libraries linked in, nothing is visible from outside."""
    command = [
        str(toolkit.cxx),
        "-shared",
        *map(str, objects),
        "-o",
        str(module.absolute()),
        *cudart,
        f"-L{tvm_ffi_folder('lib')}",
        "-ltvm_ffi",
        "-Wl,--exclude-libs,ALL",
        "-Wl,-Bsymbolic",
    ]
    compile_cpp(command, module.parent)
