"""The winner of a run as something to use: a tvm-ffi module, how to load it, and an example."""

from __future__ import annotations

import keyword
import shlex
import textwrap
from collections.abc import Container, Iterator
from pathlib import Path

from astra_chat.session.export_example import example_source
from astra_chat.tools.build.bound_launcher import needs_launcher
from astra_chat.tools.build.nvcc import Unreadable, built_text
from astra_chat.tools.build.proven_object import proven_object
from astra_chat.tools.build.tvm_ffi_binding import (
    compile_cpp,
    ensure_binding,
    given_dims,
    parameter_names,
    tvm_ffi_folder,
    tvm_ffi_version,
)
from astra_chat.tools.language import is_extension, is_triton, require_launcher, suffix_of
from astra_chat.tools.task.contract import Arg, Index
from astra_chat.tools.task.contract_text import (
    access_text,
    codes_text,
    domain_lines,
    scalar_text,
    strides_text,
    types_text,
)
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
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


# README.md beside a winner: how to call the module, how to compile the source, what is valid.

TRIED = f" `python {EXAMPLE}` calls the module once."


def readme(task: Task, source: str, arch: str, nvcc: str, origin: str = "") -> str:
    """The text, for a module that this version of nvcc built for `arch`. `origin` as of
    `export_best`."""
    valid = [
        *domain_lines(task),
        *(_values(arg.name, arg.index) for arg in task.args if arg.index),
        *map(scalar_text, task.scalars),
    ]
    return _README.format(
        entry=task.entry,
        candidate=candidate_id(source),
        summary=f"{task.summary}\n\nFound by Astra: {origin}." if origin else task.summary,
        arguments=", ".join(parameter_names(task)),
        rows="\n".join(map(_row, task.args)),
        valid="\n".join(f"- {line}" for line in valid),
        arch=arch,
        dtypes=types_text(task),
        nvcc=nvcc,
        tvm_ffi=tvm_ffi_version(),
        example=TRIED if (task.folder / INPUTS).is_file() else "",
        compiled=_compiled(task, source, arch),
    )


def _values(name: str, index: Index) -> str:
    none = f", or {index.none} for no entry" if index.none is not None else ""
    return f"each number in {name}: {index.start} <= number < {index.below}{none} (not checked)"


def _row(arg: Arg) -> str:
    dtype = "dtype" if arg.dtype == "T" else arg.dtype
    shape = f"[{', '.join(arg.shape)}]{strides_text(arg)}"
    return f"| {arg.name} | {dtype} | {shape} | {access_text(arg)} | {arg.min_alignment_bytes} |"


def _compiled(task: Task, source: str, arch: str) -> str:
    """How the source becomes part of a C++ program: by its launcher, or as the user's file."""
    if task.binding and needs_launcher(task, source):
        name = task.binding.function or task.binding.operator
        return (
            f"best.cu defines `{name}`, as your own file does: compile best.cu instead of your"
            " file, with the same command."
        )
    folders = [f"-I{folder}" for folder in task.include]
    command = shlex.join(["nvcc", *task.flags, f"-arch={arch}", *folders, "-c", "best.cu"])
    more = ", ".join(task.headers)
    return _COMPILED.format(
        prototype=prototype(task),
        command=command,
        headers=f" It includes these files of your project: {more}." if more else "",
        codes=f" {codes_text(task)}" if task.variables else "",
    )


_README = """\
# {entry}, candidate {candidate}

{summary}

`{entry}.so` is a tvm-ffi module (built with apache-tvm-ffi {tvm_ffi}). It accepts anything that
supports DLPack, such as PyTorch tensors, and runs on the caller's current stream.

```python
import tvm_ffi

module = tvm_ffi.load_module("{entry}.so")
module.{entry}({arguments})
```

| argument | dtype | shape | access | address, a multiple of bytes |
|---|---|---|---|---|
{rows}

dtype is one of: {dtypes}. Valid calls, from which the judge drew its cases:

{valid}

Tensors are on one CUDA device, and contiguous unless the table says otherwise. The module rejects
all other calls with a `ValueError` or `TypeError` that says what is wrong, before any launch.

Built by nvcc {nvcc} for {arch}, with PTX for newer GPUs; the driver must support that CUDA version.
The CUDA runtime is linked in: no toolkit is needed.{example}

With this folder on the Python path, `import torch_op` registers it as the operator
`torch.ops.astra.{entry}`, for torch.compile, torch.export and CUDA graphs: the same arguments, in
this order.

## The source in your own CUDA program

{compiled}

best.built.cu has the same tokens without comments; nvcc compiled it when the kernel was judged.
Both were compiled, and their object files (host code, machine code, PTX) are equal byte for byte.
"""

_COMPILED = """\
best.cu, in this folder, needs only the CUDA toolkit. It exports one function; declare it in your
program, compile best.cu, and link best.o:

```cpp
#include <cstdint>
#include <cuda_runtime.h>

{prototype};
```

    {command}

Pointers are device addresses.{codes}{headers}
The function does not check its arguments: call it only within the limits above, and check
the error that it returns."""


# A winner's module as an operator of PyTorch: the file torch_op.py beside it.
#
# Its schema names the arguments that it writes, and its fake kernel, which torch.compile and
# torch.export call, makes nothing, for it returns nothing. It is defined and implemented by
# torch.library.Library and not by torch.library.custom_op, which serves autograd: an empty operator
# takes 1 us a call by the former and 27 by the latter (on a CPU, torch 2.13). The module's binding
# checks each call against the contract.

NAMESPACE, WIDTH = "astra", 100
_SCALARS = {"float": "float", "int64_t": "int", "bool": "bool"}


def operator_source(task: Task) -> str:
    """A Python file that loads the module beside it and registers torch.ops.astra.ENTRY, whose
    parameters are the module's, in their order."""
    written = [_spelled(arg.name) for arg in task.args if not arg.constant]
    return _OPERATOR.format(
        entry=task.entry,
        name=_spelled(task.entry),
        namespace=NAMESPACE,
        module=module_file(task.entry),
        written=", ".join(map(_quoted, written)),
        parameters="".join(f"    {line},\n" for line in _parameters(task)),
        arguments=", ".join(map(_spelled, parameter_names(task))),
        words=textwrap.indent("\n".join(_words(task)), "    "),
    )


def _words(task: Task) -> Iterator[str]:
    """Yields the lines of the operator's docstring: text of a task file ends no string of ours."""
    lines = [
        f"{_spelled(arg.name)}: [{', '.join(arg.shape)}]{strides_text(arg)}, {access_text(arg)}."
        for arg in task.args
    ]
    for text in (f"{task.summary}.", "", *lines):
        harmless = " ".join(text.split()).replace("\\", "\\\\").replace('"', "'")
        yield from textwrap.wrap(harmless, WIDTH - 4, break_long_words=False) or [""]


def _quoted(name: str) -> str:
    return f'"{name}"'


def _parameters(task: Task) -> Iterator[str]:
    for arg in task.args:
        yield f"{_spelled(arg.name)}: torch.Tensor{' | None' if arg.optional else ''}"
    yield from (f"{_spelled(dim)}: int" for dim in given_dims(task))
    yield from (f"{_spelled(s.name)}: {_SCALARS[s.type]}" for s in task.scalars)


def _spelled(name: str) -> str:
    """A name in C may be a word of Python's."""
    return f"{name}_" if keyword.iskeyword(name) else name


_OPERATOR = '''\
"""{entry} as an operator of PyTorch. After `import torch_op`:

    torch.ops.{namespace}.{entry}({arguments})

It runs on the current stream, in eager code, under CUDA graphs and in functions that torch.compile
compiles. It is not differentiable. A call that the contract does not allow raises ValueError or
TypeError before anything is launched.
"""

from pathlib import Path

import torch
import tvm_ffi

_launch = tvm_ffi.load_module(str(Path(__file__).with_name("{module}")))["{entry}"]


def {name}(
{parameters}) -> None:
    """
{words}
    """
    _launch({arguments})


def _fake(*_, **__):
    """Returns nothing: the operator writes all results into its arguments."""


_library = torch.library.Library("{namespace}", "FRAGMENT")
_library.define(
    "{entry}" + torch.library.infer_schema({name}, mutates_args=[{written}]),
    tags=(torch.Tag.pt2_compliant_tag,),
)
for _device in ("CUDA", "CPU"):  # a tensor on the CPU is refused with the others
    _library.impl("{entry}", {name}, _device)
torch.library.register_fake("{namespace}::{entry}", _fake, lib=_library)
'''
