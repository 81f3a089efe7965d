"""A winner's module as an operator of PyTorch: the file torch_op.py beside it.

Its schema names the arguments that it writes, and its fake kernel, which torch.compile and
torch.export call, makes nothing, for it returns nothing. It is defined and implemented by
torch.library.Library and not by torch.library.custom_op, which serves autograd: an empty operator
takes 1 us a call by the former and 27 by the latter (on a CPU, torch 2.13). The module's binding
checks each call against the contract.
"""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterator

from astra_chat.tools.build.tvm_ffi_binding import given_dims, parameter_names
from astra_chat.tools.task.contract_text import access_text, strides_text
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.run_folder import module_file

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
