"""The truth of gemv_bf16, in float64: every row of x times every row of w."""

from __future__ import annotations

from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""
LARGEST_X, LARGEST_W = 16.0, 4.0
"""Finite numbers are at most these. Sums of larger ones cancel beyond float32's 24 bits and then
depend on their order; NaN and infinities have the same result in any order."""
COLUMNS = 4096
"""So many rows of w are in float64 at a time: an LM head would take five gigabytes."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw x [m, k] and w [n, k] in bfloat16, of the case's value family."""
    m, n, k = (case.dims[name] for name in ("m", "n", "k"))
    x, w = case.draw(generator, (m, k)), case.draw(generator, (n, k))
    return {"x": _bounded(x, LARGEST_X), "w": _bounded(w, LARGEST_W)}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """y [m, n], float64."""
    return {"y": _products(inputs["x"].double(), inputs["w"], absolute=False)}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The absolute sum of the products, each at least what float32 takes for zero."""
    lost = FLUSHED * inputs["x"].shape[1]
    return {"y": _products(inputs["x"].double().abs(), inputs["w"], absolute=True) + lost}


def _products(x: torch.Tensor, w: torch.Tensor, *, absolute: bool) -> torch.Tensor:
    """x [m, k] times w [n, k], or times its absolute values, some rows of w after the other."""
    parts = (part.double() for part in torch.split(w, COLUMNS))
    return torch.cat([x @ (part.abs() if absolute else part).T for part in parts], dim=1)


def _bounded(values: torch.Tensor, largest: float) -> torch.Tensor:
    return torch.where(values.isfinite(), values.clamp(-largest, largest), values)
