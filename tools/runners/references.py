"""What says which results are right: a task's reference.py, or a function of PyTorch's that
task.toml names, in float64. One loader for both.

`reference = "module:function"` of task.toml stands for a reference.py with make_inputs and
reference; what reference.py has beside it (make_inputs, accept, terms, ...) stays in force.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from astra_chat.tools.runners.answers import Tensors
from astra_chat.tools.runners.float64 import in_float64, wide
from astra_chat.tools.runners.modules import ModuleFunction
from astra_chat.tools.runners.values import DrawnCase
from astra_chat.tools.task.contract import INTEGERS, Arg
from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.folder import Task

SMALL = (0, 128)
"""Integers that are no indices, of more than 8 bits, are drawn from here."""


class Undefined(Exception):
    """A function that a task's reference.py needs is not there."""


def load_reference(task: Task) -> Any:
    """What has make_inputs, reference and, where they are there, accept, canonical, terms and
    rounded."""
    path = task.folder / "reference.py"
    own = _load_file(path) if path.is_file() else None
    if task.reference is None:
        for name in ("reference", "make_inputs"):
            if not hasattr(own, name):
                raise Undefined(f"it defines no function `{name}`")
        return own
    return FunctionReference(task, _load_function(task.folder, task.reference), own)


def written_function(task: Task) -> Callable[..., Any] | None:
    """The function of PyTorch's that task.toml names, if any. Raises ImportError, ValueError."""
    return _load_function(task.folder, task.reference) if task.reference else None


def line_of(reference: Any, name: str) -> int:
    """The line of one of its functions, in the user's file."""
    function = getattr(reference, name)
    return inspect.getsourcelines(getattr(function, "written", function))[1]


def last_line(task: Task, error: Exception) -> int:
    """The last line of the user's file that led to it, or that of the function that gives results,
    which are not as they should be; 0 where there is none."""
    if isinstance(error, SyntaxError) and error.filename == task.reference_place:
        return error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    if own := [f.lineno or 0 for f in frames if f.filename == task.reference_place]:
        return own[-1]
    path = Path(task.reference_place)
    lines = path.read_text().splitlines() if path.is_file() else []
    name = task.reference.rpartition(":")[2] if task.reference else "reference"
    return next((n for n, line in enumerate(lines, 1) if line.startswith(f"def {name}(")), 0)


@cache
def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("astra_task_reference", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _load_function(folder: Path, name: str) -> Callable[..., Any]:
    """The function of a module in the task's folder, or of one that is installed; of a class of
    torch.nn.Module its forward. Raises ImportError and ValueError."""
    module, _, path = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"{module} has no function {path}")
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        return ModuleFunction(found)
    function: Callable[..., Any] = found
    return function


class FunctionReference:
    """A function of PyTorch's as a task's reference: called in float64, with inputs of the
    contract's value families."""

    def __init__(self, task: Task, function: Callable[..., Any], own: ModuleType | None) -> None:
        self._task, self._function, self._own = task, function, own
        self.make_inputs = getattr(own, "make_inputs", self._drawn)
        self.reference = _Written(self._results, function)

    def __getattr__(self, name: str) -> Any:
        """What reference.py has beside it."""
        return getattr(self.__dict__["_own"], name)

    def _drawn(self, case: DrawnCase, generator: torch.Generator) -> Tensors:
        """Inputs that the contract does not draw: floats of the case's family, small integers."""
        usual = self._task.usual_scalars
        names = {**usual, **{n: int(v) for n, v in case.scalars.items() if n in usual}, **case.dims}
        return {
            arg.name: _draw(arg, case, generator, names)
            for arg in self._task.args
            if arg.read and not (arg.index or arg.has_families or arg.name in case.absent)
        }

    def _results(self, inputs: Tensors) -> Tensors:
        """What the function returns, or writes, for each argument that is written."""
        values = self._values(inputs)
        with in_float64():
            returned = self._call(values)
        written = [
            arg.name for arg in self._task.args if arg.written and values[arg.name] is not None
        ]
        given = [returned] if isinstance(returned, torch.Tensor) else list(returned or ())
        if isinstance(returned, dict):
            given, written = list(returned.values()), list(returned)
        passed = inspect.signature(self._function).parameters
        left = written if len(given) == len(written) else [n for n in written if n not in passed]
        if len(given) != len(left):
            raise ValueError(
                f"{self._task.reference} returns {len(given)} tensors, but the contract's"
                f" results are {', '.join(written)}"
            )
        results = {**values, **dict(zip(left, given, strict=True))}
        return {name: wide(results[name]) for name in written}

    def _values(self, inputs: Tensors) -> dict[str, Any]:
        """What a function may be given, by name: its own copies, results to be filled too."""
        values: dict[str, Any] = {}
        names = {name: int(self._number(inputs, name)) for name in self._task.dims}
        names |= {name: int(self._number(inputs, name)) for name in self._task.usual_scalars}
        kinds = {"float": float, "int64_t": int, "bool": bool}
        for arg in self._task.args:
            given = inputs.get(arg.name)
            if arg.read:
                values[arg.name] = None if given is None else wide(given).clone()
            elif arg.written:
                shape = tuple(evaluate(extent, names) for extent in arg.shape)
                values[arg.name] = torch.zeros(shape, dtype=torch.float64)
        values |= {s.name: kinds[s.type](self._number(inputs, s.name)) for s in self._task.scalars}
        return {**names, **values}

    @staticmethod
    def _number(inputs: Tensors, name: str) -> float:
        value = inputs[name]
        assert value is not None
        return value.item()

    def _call(self, values: dict[str, Any]) -> Any:
        """What it returns, called by its parameters' names or in the contract's order: what is
        read, then scalars. Raises ValueError where neither goes."""
        parameters = inspect.signature(self._function).parameters
        needed = [name for name, p in parameters.items() if p.default is p.empty and p.kind < 4]
        if all(name in values for name in needed):
            return self._function(**{name: values[name] for name in parameters if name in values})
        order = [arg.name for arg in self._task.args if arg.read]
        order += [scalar.name for scalar in self._task.scalars]
        if not len(needed) <= len(order) <= len(parameters):
            raise ValueError(
                f"{self._task.reference} takes ({', '.join(parameters)}), but the contract"
                f" has {', '.join(order)}: give its parameters the contract's names"
            )
        return self._function(*(values[name] for name in order))


class _Written:
    """A function of ours that stands for one that the user wrote."""

    def __init__(self, ours: Callable[..., Any], written: Callable[..., Any]) -> None:
        self._ours, self.written = ours, inspect.unwrap(written)

    def __call__(self, inputs: Tensors) -> Any:
        return self._ours(inputs)


def _draw(
    arg: Arg, case: DrawnCase, generator: torch.Generator, names: dict[str, int]
) -> torch.Tensor:
    shape = tuple(evaluate(extent, names) for extent in arg.shape)
    dtype = case.types.get(arg.dtype) or getattr(torch, arg.dtype)
    if dtype.is_floating_point:
        return case.draw(generator, shape, dtype)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    low, high = INTEGERS[str(dtype).removeprefix("torch.")] if dtype.itemsize == 1 else SMALL
    return torch.randint(low, high, shape, generator=generator).to(dtype)
