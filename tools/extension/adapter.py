"""The file by which the untrusted process calls a built extension as it would a published module:
the problem's text, and a ModelNew with the problem's weights whose forward is the library's."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.extension.build import NAMESPACE
from astra_chat.tools.language import FORWARD
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput

TEXT = """

import operator as _operator
import torch as _torch
from astra_chat.tools.runners.module_calls import allow_tf32 as _allow_tf32
from astra_chat.tools.runners.modules import ModuleFunction as _ModuleFunction

_torch.ops.load_library({library!r})
_forward = _torch.ops.{namespace}.{forward}.default
_function = _ModuleFunction(Model)
_inputs = list(_function.values)
_places = [
    _inputs.index(_function.inputs[name]) if name in _function.inputs else None
    for name in {arguments!r}
]
_weights = [
    _operator.attrgetter(_function.weights[name])
    for name in {arguments!r}
    if name in _function.weights
]
_allow_tf32({tf32!r})


class ModelNew(Model):
    def forward(self, *given):
        weights = iter(_weights)
        return _forward(
            *(next(weights)(self) if at is None else given[at] for at in _places)
        )

    def on_arguments(self, *given):
        return _forward(*given)
"""


def problem_text(task: Task) -> str:
    """The file of the task's module; its class is `Model`, whatever it is called in there. Raises
    BadInput where the module is not in a file of the task's folder."""
    file, _, kind = (task.reference or "").partition(":")
    path = task.folder / f"{file}.py"
    if not path.is_file():
        raise BadInput(f"{task.name}: a torch extension needs the module's file, {path.name}")
    return path.read_text() + (f"\nModel = {kind}\n" if kind != "Model" else "")


def candidate_text(task: Task, library: Path) -> str:
    """The file that the untrusted process loads."""
    return problem_text(task) + TEXT.format(
        library=str(library),
        namespace=NAMESPACE,
        forward=FORWARD,
        arguments=[arg.name for arg in task.args if arg.read],
        tf32=task.tensor_float32,
    )
