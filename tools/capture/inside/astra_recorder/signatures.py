"""What makes two calls equal, and a call's values as data.

Calls are equal where their tensors have equal shapes, strides, dtypes, devices and places to each
other, and all else but floats is equal, too. Of floats the numbers are kept beside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

PLAIN = (int, bool, str, type(None), torch.dtype, torch.device)
FAKE = ("FakeTensor", "FunctionalTensor", "ProxyTensor")
"""What torch.compile passes to learn of a graph: tensors without data."""
MOST_ITEMS = 64
"""Values of a list that count; the rest of a longer one is left out."""


class Traced(Exception):
    """The call has no data: a compiler asks what would come out."""


class Signature:
    """One call as a key, with the tensors and floats in it, in their order."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.tensors: list[torch.Tensor] = []
        self.floats: list[float] = []
        parts = [self._part(value) for value in values]
        self.addresses = [tensor.data_ptr() for tensor in self.tensors]
        self.buffers = [tensor.untyped_storage().data_ptr() for tensor in self.tensors]
        self.key = (*parts, *self._places())

    def _part(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            if kind.__name__ in FAKE:
                raise Traced
            self.tensors.append(value)
            return kind, value.shape, value.stride(), value.dtype, value.device
        if kind in PLAIN:
            return kind, value
        if kind is float:
            self.floats.append(value)
            return kind
        if kind in (list, tuple):
            return kind, len(value), *(self._part(one) for one in value[:MOST_ITEMS])
        return kind, "object"

    def _places(self) -> tuple[int, ...]:
        """Tensors that share a buffer: which one's, and how far behind it."""
        if len(set(self.buffers)) == len(self.buffers):
            return ()
        firsts = [self.buffers.index(buffer) for buffer in self.buffers]
        offsets = (
            address - self.addresses[first]
            for address, first in zip(self.addresses, firsts, strict=True)
        )
        return *firsts, *offsets


def named(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values by name, those of lists one by one: weights[0], weights[1]."""
    for name, value in values.items():
        if type(value) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in value):
            yield from named({f"{name}[{at}]": one for at, one in enumerate(value[:MOST_ITEMS])})
        else:
            yield name, value


def described(values: dict[str, Any]) -> dict[str, Any]:
    """Tensors and other values as data, by name. Tensors of one buffer have its number; their
    offsets are bytes from the first of the call's tensors there."""
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    buffers = {name: tensor.untyped_storage().data_ptr() for name, tensor in tensors.items()}
    numbers = {buffer: at for at, buffer in enumerate(dict.fromkeys(buffers.values()))}
    starts: dict[int, int] = {}
    for name, tensor in tensors.items():
        starts[buffers[name]] = min(starts.get(buffers[name], 2**64), tensor.data_ptr())
    return {
        name: {
            **_tensor(value),
            "buffer": numbers[buffers[name]],
            "offset_bytes": value.data_ptr() - starts[buffers[name]],
        }
        if name in tensors
        else _other(value)
        for name, value in values.items()
    }


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "strides": list(tensor.stride()),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,
    }


def _other(value: Any) -> dict[str, Any]:
    if isinstance(value, float):
        return {"type": "float", "value": None}
    if isinstance(value, bool | int | str | type(None)):
        return {"type": type(value).__name__, "value": value}
    if isinstance(value, torch.dtype | torch.device):
        return {"type": type(value).__name__, "value": str(value).removeprefix("torch.")}
    if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value):
        return {"type": "list", "value": [int(one) for one in value[:MOST_ITEMS]]}
    kind = type(value)
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "value": None}
