"""Ways in which PyTorch runs a module: eager, and compiled by torch.compile from an empty cache.

Weights and inputs lie in memory that is given, once for each set of buffers, so that a way and a
candidate read the same. Every call of a way is of the shapes of its first one: a way that would
compile again fails instead, so that no compilation is timed.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn

from astra_chat.tools.runners.modules import ModuleFunction, outputs, why
from astra_chat.tools.runners.references import written_function
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

EAGER = "eager"
Way = Callable[[nn.Module, dict[str, Any]], Any]
"""Calls a module with its inputs by name."""


class NotRun(Exception):
    """PyTorch cannot run the module in some way; the text says why, on one line."""


@dataclass(frozen=True)
class BoundModule:
    """The module with weights and inputs in given memory."""

    model: nn.Module
    inputs: dict[str, Any]

    def call(self, way: Way) -> list[torch.Tensor]:
        return outputs(way(self.model, self.inputs))


def module_of(task: Task) -> ModuleFunction:
    """The module that is a task's reference. Raises NotRun where that is something else."""
    function = written_function(task)
    if not isinstance(function, ModuleFunction):
        raise NotRun("the task's reference is not a PyTorch module")
    return function


def bound(function: ModuleFunction, values: Mapping[str, torch.Tensor], device: str) -> BoundModule:
    """`values`: what the task's arguments hold, by name. A weight that forward does not read is in
    no contract: it stays as the module made it."""
    own = dict(function.model.named_parameters()) | dict(function.model.named_buffers())
    names = {path: name for name, path in function.weights.items()}
    memo: dict[int, Any] = {}
    for path, tensor in own.items():
        given = values.get(names[path])
        value = tensor.detach().to(device) if given is None else given.view(tensor.shape)
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(value, requires_grad=False) if is_parameter else value
    inputs = dict(function.values)
    for name, path in function.inputs.items():
        if name in values:
            whole = inputs[path].dim() > 0
            inputs[path] = values[name] if whole else values[name].reshape(())
    return BoundModule(copy.deepcopy(function.model, memo), inputs)


def in_memory(memory: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """A dense tensor in these bytes that is no view of them: PyTorch compiles views otherwise."""
    first = memory.storage_offset() // dtype.itemsize
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    found = torch.empty(0, dtype=dtype, device=memory.device)
    return found.set_(memory.untyped_storage(), first, shape, strides)


def drawn(task: Task, case: Case, device: str) -> dict[str, torch.Tensor]:
    """Numbers between 0 and 1 for each argument that is read: a way's first call takes them."""
    return {
        arg.name: torch.rand(arg.shape_of(case), device=device).to(
            getattr(torch, arg.dtype_of(case))
        )
        for arg in task.args
        if arg.read
    }


def eager(model: nn.Module, inputs: dict[str, Any]) -> Any:
    """The module as PyTorch runs it, operator by operator."""
    return model(**inputs)


def compiled(number: int, mode: str, first: BoundModule) -> Way:
    """torch.compile with nothing in its caches, called once. `number`: differs from call to call.

    Raises NotRun.
    """
    from torch._inductor import config, utils

    # Code that was compiled is kept by its code object: one for each number.
    code = eager.__code__.replace(co_name=f"call_{number}")
    own = FunctionType(code, eager.__globals__, code.co_name)
    config.compile_threads = 1  # processes that compile would outlive the lock
    try:
        with utils.fresh_cache(dir=tempfile.gettempdir(), delete=False):
            way: Way = torch.compile(own, mode=mode, dynamic=False)
            first.call(way)
    except Exception as error:  # whatever a compiler raises is why there is no time
        raise NotRun(why(error)) from None
    return way


def strict() -> None:
    """No compilation from now on."""
    torch._dynamo.config.error_on_recompile = True


def allow_tf32(allowed: bool) -> None:
    """Whether products and convolutions of float32 may use TF32."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
