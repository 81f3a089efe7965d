"""Dims out of a call's extents."""

from __future__ import annotations

import pytest

from astra_chat.tools.capture.fitting import solved


def test_dims_follow_from_names_products_and_divisions() -> None:
    pairs = [
        ("q[1]", "ceil_div(d, 128)", 4),
        ("x[0]", "tokens", 7),
        ("x[1]", "(heads)*(size)", 1024),
        ("y[0]", "2*h + 1", 41),
    ]
    names = solved(("tokens", "heads", "size", "h", "d"), {"size": 128}, pairs)
    assert names == {"tokens": 7, "heads": 8, "size": 128, "h": 20, "d": 512}


def test_extents_of_nothing_are_nothing() -> None:
    assert solved(("n",), {}, [("x[0]", "n", 0)]) == {"n": 0}


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (
            [("x[0]", "n", 4), ("y[0]", "2*n", 9)],
            "y[0] is 9, but the contract says 2*n, which is 8",
        ),
        ([("x[0]", "2*n", 9)], "dim 'n' cannot be derived"),
        ([("x[0]", "n", 4), ("y[0]", "3", 4)], "y[0] is 4, but the contract says 3"),
        ([("x[0]", "n*m", 4)], "dim 'n' cannot be derived from the shapes: name its parameter"),
    ],
)
def test_what_does_not_hold_is_said(pairs: list[tuple[str, str, int]], said: str) -> None:
    with pytest.raises(ValueError) as error:
        solved(("n",), {}, pairs)
    assert said in str(error.value)
