"""The tail of chi-square: known quantiles, PyTorch's incomplete gamma function, far tails."""

from __future__ import annotations

import math

import pytest
import torch

from astra_chat.tools.check.kinds import log_tail

# Quantiles of printed tables: degrees of freedom, statistic, upper tail.
TABLE = [
    (1, 3.841, 0.05),
    (2, 5.991, 0.05),
    (5, 20.515, 0.001),
    (10, 23.209, 0.01),
    (30, 50.892, 0.01),
    (100, 149.449, 0.001),
]


@pytest.mark.parametrize(("degrees", "statistic", "tail"), TABLE)
def test_printed_quantiles(degrees: int, statistic: float, tail: float) -> None:
    assert math.exp(log_tail(statistic, degrees)) == pytest.approx(tail, rel=2e-3)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 64, 1001, 20_000])
def test_the_incomplete_gamma_function(degrees: int) -> None:
    for share in (0.5, 0.9, 1.0, 1.1, 1.3, 2.0):
        statistic = degrees * share
        half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
        expected = float(torch.special.gammaincc(half[0], half[1]))
        if expected > 1e-290:
            assert log_tail(statistic, degrees) == pytest.approx(math.log(expected), abs=1e-8)


def test_tails_that_float64_cannot_hold() -> None:
    assert log_tail(4000.0, 2) == pytest.approx(-2000.0)
    assert -2010 < log_tail(4000.0, 1) < -2000
    assert log_tail(0.0, 5) == 0.0 and log_tail(1e-300, 1) == pytest.approx(0.0, abs=1e-9)
