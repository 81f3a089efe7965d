"""Illegal values beside finite numbers never reach an argument."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.runners.values import legal
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import AnyFamily, Case

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


@pytest.mark.parametrize("families", [{}, {"s_a": "special", "s_b": "mixed_rows"}])
@pytest.mark.second_tier
def test_no_nan_reaches_an_argument_that_excludes_it(families: dict[str, AnyFamily]) -> None:
    """What reference.py draws, and what the judge draws in its place."""
    task = find_task("merge_state_v2")
    special = next(case for case in task.check if case.values == "special")
    case = special.model_copy(update={"families": families, "seed": 77})
    oracle = Oracle(task)
    try:
        (made,) = oracle.oracle_cases([case], Stop())
        for name in ("s_a", "s_b"):
            arg = next(arg for arg in task.args if arg.name == name)
            values = np.fromfile(made.input_path(arg), dtype=np.float32)
            assert not np.isnan(values).any() and np.isinf(values).any(), name
        values_a = next(arg for arg in task.args if arg.name == "v_a")
        assert made.input_path(values_a).is_file()
    finally:
        oracle.close()


@pytest.mark.second_tier
def test_planted_numbers_reach_the_kernel_s_input() -> None:
    task = find_task("rmsnorm")
    case = Case(
        dims={"tokens": 64, "h": 8}, dtype="float32", seed=5, planted={"input": (77.5, -3.25)}
    )
    oracle = Oracle(task)
    try:
        (made,) = oracle.oracle_cases([case], Stop())
        arg = next(arg for arg in task.args if arg.name == "input")
        values = np.fromfile(made.input_path(arg), dtype=np.float32).reshape(64, 8)
        assert {77.5, -3.25} <= set(values.flatten().tolist())
        assert (values == 77.5).all(axis=1).any() and (values == -3.25).all(axis=1).any()
    finally:
        oracle.close()
