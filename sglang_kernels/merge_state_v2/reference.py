"""The truth of merge_state_v2, in float64: two attention results joined by their log-sum-exps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

PLACED = ("ramp", "one_hot")
"""Families that tell elements apart: these shape the values too, the others the LSEs alone."""
FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""
EMPTY_ONE_IN = 4
"""In the family `special`, each side is empty in one head of this many."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw v_a, v_b [n, h, d] in the case's dtype and s_a, s_b [n, h] in float32.

    Values stay normal while LSEs grow or shrink: their difference is what the weights hang on.
    """
    n, h, d = (case.dims[name] for name in ("n", "h", "d"))
    values = case if case.values in PLACED else replace(case, values="normal")
    sums = replace(case, dtype=torch.float32)
    inputs = {}
    for side, infinity in (("a", torch.inf), ("b", -torch.inf)):
        inputs[f"v_{side}"] = values.draw(generator, (n, h, d))
        lse = sums.draw(generator, (n, h))
        if case.values == "special":
            empty = torch.randint(EMPTY_ONE_IN, (n, h), generator=generator) == 0
            lse = torch.where(empty, infinity, lse)
        inputs[f"s_{side}"] = lse
    return inputs


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """v_merged [n, h, d] and s_merged [n, h], float64. Both sides empty give NaN, as upstream."""
    a, b = _lse(inputs["s_a"]), _lse(inputs["s_b"])
    largest = torch.maximum(a, b)
    weight_a, weight_b = torch.exp(a - largest), torch.exp(b - largest)
    total = weight_a + weight_b
    v_a, v_b = inputs["v_a"].double(), inputs["v_b"].double()
    merged = v_a * (weight_a / total)[..., None] + v_b * (weight_b / total)[..., None]
    return {"v_merged": merged, "s_merged": torch.log(total) + largest}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the two sides give to v_merged, each by how exact its weight is: a float32 exponential
    of a difference errs by 1 + |difference| ulps. For s_merged the larger side, and a logarithm."""
    a, b = _lse(inputs["s_a"]), _lse(inputs["s_b"])
    largest = torch.maximum(a, b)
    total = torch.exp(a - largest) + torch.exp(b - largest)
    merged = torch.zeros_like(inputs["v_a"], dtype=torch.float64)
    for lse, name in ((a, "v_a"), (b, "v_b")):
        weight = torch.exp(lse - largest) / total
        size = torch.where(weight > 0, weight * (1 + (a - b).abs()), 0.0) + FLUSHED
        merged += inputs[name].double().abs() * size[..., None]
    return {"v_merged": merged, "s_merged": largest.abs() + 1}


def _lse(values: torch.Tensor) -> torch.Tensor:
    """Natural log. Infinity of either sign says that there was nothing to attend to."""
    return torch.where(values.isinf(), -torch.inf, values).double()
