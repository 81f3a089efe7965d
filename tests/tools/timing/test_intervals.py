"""The interval over all cases holds their mean, and is narrower only where errors average out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from astra_chat.agents.run_state import state_of
from astra_chat.tools.timing.intervals import mean, mean_interval, percent_of_limit
from astra_chat.tools.types import Timed
from astra_chat.tools.virtual_gpu.adapter import SHARED
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from tests.chat_samples import timed

EXAMPLE = Path(__file__).resolve().parents[3] / "transcripts/examples/silu_and_mul-h200.jsonl.xz"


def test_of_measurements() -> None:
    found = state_of(turns_of(read(EXAMPLE).records)).best
    assert found is not None
    low, high = mean_interval(found[1].cases)
    assert low < found[1].ratio < high and math.log(high / low) < 0.02
    assert mean([(c.ratio, c.weight) for c in found[1].cases]) == pytest.approx(found[1].ratio)


def test_errors_of_one_model_do_not_average_out() -> None:
    once = timed(2.0)
    twice = Timed.model_validate(once.model_dump() | {"cases": [once.cases[0].model_dump()] * 4})
    half = math.log(1.1 / 0.9) / 2
    low, high = mean_interval(once.cases)
    assert math.log(high / low) / 2 == pytest.approx(half)
    low, high = mean_interval(twice.cases)
    assert math.log(high / low) / 2 == pytest.approx(half * math.sqrt(SHARED + (1 - SHARED) / 4))
    assert low < 2.0 < high


def test_weights_of_nothing() -> None:
    """Every case counts the same where weights are 0, as in a transcript that others wrote."""
    once = timed(2.0)
    none = once.cases[0].model_copy(update={"weight": 0.0})
    assert mean([(1.0, 0.0), (4.0, 0.0)]) == pytest.approx(2.0)
    assert mean_interval([none, none]) == mean_interval(once.cases * 2)
    nothing = once.model_copy(update={"cases": (none,)})
    assert percent_of_limit(nothing) == none.percent_of_limit
