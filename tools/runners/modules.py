"""A PyTorch module in KernelBench's form as a function of its inputs and of its weights.

The file defines `class Model(nn.Module)`, `get_inputs()` and `get_init_inputs()`. Weights are the
parameters and buffers, in the order of state_dict; each has the name of its path with _ for dots.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import mmap
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

LARGE, SAMPLE = 2**24, 2**20
"""Numbers of a large tensor, and of the sample that is drawn of it."""
MAKERS = ("get_inputs", "get_init_inputs")
KEPT_WORDS = frozenset(
    "auto bool break case char class const continue default delete do double else enum extern false"
    " float for goto half if in inline int long namespace new operator out private public register"
    " return scratch short signed sizeof static stream struct switch template this true typedef"
    " union unsigned using void volatile while larger smaller plus times blocks in_lines".split()
)
"""Names that no argument may have: words of C++, and names that plain kernels have."""


def loaded(file: Path, name: str) -> Any:
    """Returns the file as a module, which Python knows by this name: torch looks for a class's
    source there. Raises what the file raises."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def why(error: Exception) -> str:
    """What an exception says, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]


class BadModule(Exception):
    """The file is no module in this form; the text says why."""


class ModuleFunction:
    """A module, called with its inputs and weights by the names of their arguments."""

    def __init__(self, kind: type[nn.Module]) -> None:
        """Builds the module, as its file says. Raises BadModule."""
        makers = vars(sys.modules[kind.__module__])
        for name in MAKERS:
            if not callable(makers.get(name)):
                raise BadModule(f"it defines no function {name}()")
        torch.manual_seed(0)
        self.model = _built(kind, makers["get_init_inputs"])
        self.values = _inputs(self.model, makers["get_inputs"])
        paths = self._paths()
        names = _argument_names([*self.values, *paths])
        self.inputs = dict(zip(names, self.values, strict=False))
        """What an argument of forward is called here, and there."""
        self.weights = dict(zip(names[len(self.values) :], paths, strict=True))
        """Path of each weight, by the name of its argument."""
        given = [name for name, own in self.inputs.items() if _is_tensor(self.values[own])]
        kept = inspect.Parameter.KEYWORD_ONLY
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, kept) for n in given]
            + [inspect.Parameter(n, kept, default=None) for n in self.weights]
        )
        self.__wrapped__ = kind.forward
        self._wide = False

    def _paths(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by path, those of state_dict first and in its order."""
        found = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        order = [name for name in self.model.state_dict(keep_vars=True) if name in found]
        return {name: found[name] for name in dict.fromkeys([*order, *found])}

    def weight(self, name: str) -> torch.Tensor:
        """The weight with which the module begins, by the name of its argument."""
        return self._paths()[self.weights[name]].detach()

    def called(self, given: Mapping[str, torch.Tensor], weights: Mapping[str, Any]) -> Any:
        """What forward returns, in the dtypes of what it is given."""
        values = {own: given.get(name, self.values[own]) for name, own in self.inputs.items()}
        return functional_call(
            self.model, {self.weights[name]: value for name, value in weights.items()}, (), values
        )

    def __call__(self, **values: torch.Tensor) -> list[torch.Tensor]:
        """Results in float64. An argument of one element stands for a number, too."""
        if not self._wide:
            self.model.double()
            self._wide = True
        shapes = {n: self.values[own].shape for n, own in self.inputs.items() if n in values}
        given = {n: values[n].reshape(values[n].shape if s else ()) for n, s in shapes.items()}
        weights = {
            n: v.reshape(self.weight(n).shape)
            for n, v in values.items()
            if n in self.weights and v is not None
        }
        found = outputs(self.called(given, weights))
        return [one if one.dim() else one.reshape(1) for one in found]


def outputs(returned: Any) -> list[torch.Tensor]:
    """The tensors that forward returns. Raises BadModule where there is anything else."""
    if isinstance(returned, dict):
        returned = list(returned.values())
    found = [returned] if isinstance(returned, torch.Tensor) else returned
    if not isinstance(found, tuple | list) or not found or not all(map(_is_tensor, found)):
        raise BadModule("its forward returns neither a tensor nor a tuple of tensors")
    return list(found)


def _built(kind: type[nn.Module], maker: Callable[[], Any]) -> nn.Module:
    given = maker()
    return kind(**given) if isinstance(given, dict) else kind(*given)


class _Sparing(TorchFunctionMode):
    """Gives large random tensors in memory that nobody has touched: SAMPLE numbers, then zeros.

    Of what get_inputs() makes, only shapes and the size of values are used, and published problems
    make up to 10 GB.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        extents = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
        if func not in (torch.rand, torch.randn) or not named.keys() <= {"dtype"}:
            return func(*args, **named)
        if not all(isinstance(e, int) for e in extents) or math.prod(extents) <= LARGE:
            return func(*args, **named)
        sample = func(SAMPLE, **named)
        memory = mmap.mmap(-1, math.prod(extents) * sample.element_size())
        whole = torch.frombuffer(memory, dtype=sample.dtype)
        whole[:SAMPLE] = sample
        return whole.view(*extents)


def _inputs(model: nn.Module, maker: Callable[[], Any]) -> dict[str, Any]:
    """What get_inputs() gives, by the parameters of forward. Raises BadModule."""
    with _Sparing():
        given = maker()
    try:
        signature = inspect.signature(model.forward)
        bound = signature.bind(**given) if isinstance(given, dict) else signature.bind(*given)
    except TypeError as error:
        raise BadModule(
            f"the values returned by get_inputs() do not match the arguments of forward(): {error}"
        ) from None
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    for name in bound.arguments:
        if signature.parameters[name].kind in several:
            raise BadModule(f"its forward takes a variable number of arguments (*{name})")
    return dict(bound.arguments)


def _argument_names(paths: Sequence[str]) -> list[str]:
    names: list[str] = []
    for path in paths:
        name = re.sub(r"[^a-z0-9_]", "_", path.lower())
        name = f"p{name}" if name[:1].isdigit() else name
        while name in KEPT_WORDS or name in names:
            name += "_"
        names.append(name)
    return names


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
