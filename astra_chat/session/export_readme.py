"""README.md beside a winner: how to call the module, how to compile the source, what is valid."""

from __future__ import annotations

import shlex

from astra_chat.tools.build.bound_launcher import needs_launcher
from astra_chat.tools.build.tvm_ffi_binding import parameter_names, tvm_ffi_version
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
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.run_folder import EXAMPLE, INPUTS

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
