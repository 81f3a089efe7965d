"""A function of PyTorch's run in float64: what it casts to a narrower float stays wide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NARROW = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class _Wide(TorchFunctionMode):
    """Takes float64 for each narrower float that a call of PyTorch's names."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        named = {name: _wider(value) for name, value in (kwargs or {}).items()}
        return func(*(_wider(value) for value in args), **named)


def _wider(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


@contextmanager
def in_float64() -> Iterator[None]:
    """Calls of PyTorch's in it neither round to narrower floats nor begin with one."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), _Wide():
            yield
    finally:
        torch.set_default_dtype(usual)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the form in which an oracle gives results: float64, int64 or bool."""
    if tensor.is_floating_point():
        return tensor.float().double() if tensor.element_size() == 1 else tensor.double()
    return tensor if tensor.dtype == torch.bool else tensor.long()
