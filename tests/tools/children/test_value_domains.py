"""Illegal values beside finite numbers never reach an argument."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from astra_chat.tools.children.value_domains import legal
from astra_chat.tools.task.contract import Arg

DRAWN = torch.tensor([1.5, math.nan, math.inf, -math.inf, 0.0])


def legal_of(dtype: torch.dtype = torch.float32, **fields: Any) -> list[float]:
    arg = Arg.model_validate(
        {"name": "x", "dtype": "T", "shape": ["n"], "access": "read", **fields}
    )
    return legal(arg, DRAWN.to(dtype)).tolist()


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"values": "no_nan"}, [1.5, -math.inf, math.inf, -math.inf, 0.0]),
        ({"values": "minus_inf", "largest": 1e4}, [1.5, -math.inf, 1e4, -math.inf, 0.0]),
        ({"values": "minus_inf", "range": [-8, 8]}, [1.5, -math.inf, 8.0, -math.inf, 0.0]),
        ({"values": "finite", "largest": 1e4}, [1.5, 0.0, 1e4, -1e4, 0.0]),
        ({"values": "finite", "range": [0.5, 8]}, [1.5, 0.5, 8.0, 0.5, 0.0]),
    ],
)
def test_illegal_values_are_replaced(fields: dict[str, Any], wanted: list[float]) -> None:
    assert legal_of(**fields) == wanted


def test_the_largest_number_of_the_dtype_bounds_it() -> None:
    assert legal_of(torch.float16, values="finite", largest=1e30)[2] == 65504


def test_without_a_domain_all_stays() -> None:
    assert math.isnan(legal_of(largest=1e4)[1])
    assert legal_of(values="any", largest=1e4)[2] == math.inf
