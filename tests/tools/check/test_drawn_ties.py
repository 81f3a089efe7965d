"""Cases whose exact results lie in the middle of two values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from astra_chat.tools.check.floats import ulp
from astra_chat.tools.check.hidden_cases import LEAST_BYTES, tied
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, task_names

MANY = 130
"""Ties of a dtype, of which a wrong rounding moves half: more than what counts as chance."""


@pytest.mark.parametrize("name", task_names())
def test_they_lie_in_the_domain_and_are_small(name: str) -> None:
    task = find_task(name)
    for case in tied(task, random.Random(1)):
        assert case.values == "large" and task.least_bytes(case) <= 2 * LEAST_BYTES
        assert all(dim.allows(case.dims[d], case.dtype) for d, dim in task.dims.items())


@pytest.mark.parametrize("name", ["silu_and_mul", "gelu_tanh_and_mul"])
@pytest.mark.second_tier
def test_products_of_activations_tie_in_them(name: str) -> None:
    task = find_task(name)
    oracle = Oracle(task)
    try:
        ties = dict[str, int]()
        for one in oracle.oracle_cases(list(tied(task, random.Random(2))), Stop()):
            exact = np.asarray(one.expected(task.args[0]))
            steps = abs(exact / ulp(exact, one.case.dtype))
            ties[one.case.dtype] = ties.get(one.case.dtype, 0) + int((steps % 1 == 0.5).sum())
    finally:
        oracle.close()
    assert ties.keys() == {"float16", "bfloat16"} and min(ties.values()) > MANY
