"""Numbers that follow from dims are found as the simplest expression."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.extents import extent_of
from astra_chat.tools.task.expressions import evaluate

DIMS = [{"n": 3, "d": 64}, {"n": 17, "d": 96}, {"n": 64, "d": 1000}]


@pytest.mark.parametrize(
    "text", ["n", "d", "d*2", "n*d", "ceil_div(d, 128)", "n + 1", "n*ceil_div(d, 128)", "d - n"]
)
def test_an_expression_is_found(text: str) -> None:
    assert extent_of([evaluate(text, one) for one in DIMS], DIMS) == text


def test_a_constant_and_what_follows_from_nothing() -> None:
    assert extent_of([128, 128, 128], DIMS) == "128"
    assert extent_of([5, 999, 1], DIMS) is None
