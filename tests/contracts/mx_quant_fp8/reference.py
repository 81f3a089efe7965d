"""The truth of mx_quant_fp8, in float64."""

from __future__ import annotations

from typing import Any

import torch

GROUP = 32
LARGEST = 448.0
LEAST_EXPONENT = -127


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, hidden]: finite; in every third row largest numbers at which the scale
    changes, 448 and what follows, times a power of two."""
    drawn = case.draw(generator, (case.dims["tokens"], case.dims["hidden"])).nan_to_num(nan=0.0)
    if case.values == "normal":
        drawn[::3, ::GROUP] = 448 / 64
        drawn[1::3, ::GROUP] = 456 / 64
    return {"input": drawn}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output_q [tokens, hidden]: what is to be coded, in units of the scale, not yet rounded;
    output_s [tokens, hidden // 32]."""
    values = inputs["input"].double()
    groups = values.reshape(len(values), -1, GROUP)
    significand, exponent = torch.frexp(groups.abs().amax(dim=-1) / LARGEST)
    # The significand is from 1/2 to below 1, and 1/2 is a power of two itself.
    exponent = torch.where(significand > 0.5, exponent, exponent - 1).clamp(min=LEAST_EXPONENT)
    exponent = torch.where(significand == 0, LEAST_EXPONENT, exponent)
    scales = torch.ldexp(torch.ones((), dtype=torch.float64), exponent)
    return {"output_q": (groups / scales[..., None]).reshape(values.shape), "output_s": scales}
