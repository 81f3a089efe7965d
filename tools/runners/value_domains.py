"""Values beside finite numbers that an argument may not hold are replaced by legal ones."""

from __future__ import annotations

import math

import torch

from astra_chat.tools.task.contract import Arg


def legal(arg: Arg, drawn: torch.Tensor) -> torch.Tensor:
    """What was drawn for a float argument, with the values replaced that its `values` excludes: NaN
    by negative infinity where that is legal, else by zero; infinities by the greatest legal number
    of their sign."""
    domain = arg.value_domain
    if domain == "any" or not arg.values or not drawn.is_floating_point():
        return drawn
    most = min(arg.largest or math.inf, torch.finfo(drawn.dtype).max)
    low, high = arg.range or (-most, most)
    minus = -math.inf if domain in ("minus_inf", "no_nan") else low
    plus = math.inf if domain == "no_nan" else high
    nan = -math.inf if domain != "finite" else min(max(0.0, low), high)
    return drawn.double().nan_to_num(nan=nan, posinf=plus, neginf=minus).to(drawn.dtype)
