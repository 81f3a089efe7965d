"""Value families: distributions of a case's input values (normal, special, heavy_tail, ...)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from astra_chat.tools.types import ValueFamily

Shape = tuple[int, ...]
Draw = Callable[[torch.Generator, Shape, torch.dtype], torch.Tensor]
SPECIAL_SHARE = 32
"""One element in this many is special in the family `special`."""
HEAVIEST = 200.0
"""Bound of the family `heavy_tail`: products of two still fit float16."""


@dataclass(frozen=True)
class DrawnCase:
    """What reference.py sees of a case."""

    dims: dict[str, int]
    dtype: torch.dtype
    values: ValueFamily

    def draw(self, generator: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
        """Tensor of the case's dtype and value family, on the CPU."""
        return _FAMILIES[self.values](generator, shape, self.dtype)


def _normal(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=g).to(dtype)


def _scaled(scale: float) -> Draw:
    def draw(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
        return (torch.randn(shape, generator=g) * scale).to(dtype)

    return draw


def _denormal(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """Below the least normal number: 1 / x is infinite, and fast maths takes it for 0. Drawn in
    float64: arithmetic in float32 may flush it here, too."""
    drawn = 2 * torch.rand(shape, generator=g, dtype=torch.float64) - 1
    return (drawn * torch.finfo(dtype).tiny).to(dtype)


def _ramp(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """-8 to 8, in a period that is not a power of two: a shifted index shows."""
    count = int(torch.Size(shape).numel())
    return (torch.arange(count) % 1009 / 1008 * 16 - 8).reshape(shape).to(dtype)


def _one_hot(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """A single one in every row: subsampling and broken tails lose it."""
    rows = torch.zeros(shape).reshape(-1, shape[-1])
    at = torch.randint(shape[-1], (rows.shape[0], 1), generator=g)
    return rows.scatter_(1, at, 1.0).reshape(shape).to(dtype)


def _special(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    palette = torch.tensor(
        [float("inf"), -float("inf"), float("nan"), 0.0, -0.0, info.max, info.min, info.tiny]
    )
    drawn = torch.randn(shape, generator=g)
    chosen = torch.randint(len(palette) * SPECIAL_SHARE, shape, generator=g)
    return torch.where(
        chosen < len(palette), palette[chosen.clamp(max=len(palette) - 1)], drawn
    ).to(dtype)


def _heavy_tail(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """A few elements outweigh all others: sampling, and sums in a poor order, lose them."""
    spread = torch.exp(2 * torch.randn(shape, generator=g))
    drawn = torch.randn(shape, generator=g) * spread
    return drawn.clamp(-HEAVIEST, HEAVIEST).to(dtype)


def _binary(g: torch.Generator, shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    """Zeros and ones: short sums and products are exact, so nothing has to be tolerated."""
    return torch.randint(2, shape, generator=g).to(dtype)


_FAMILIES: dict[ValueFamily, Draw] = {
    "normal": _normal,
    "large": _scaled(64.0),
    "tiny": _scaled(1e-4),
    "denormal": _denormal,
    "ramp": _ramp,
    "one_hot": _one_hot,
    "special": _special,
    "heavy_tail": _heavy_tail,
    "binary": _binary,
}
