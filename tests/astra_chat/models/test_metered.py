"""What stands behind the meter: what an answer cost, and a judge that can be cancelled."""

from __future__ import annotations

import pytest
from autogen_core.models import RequestUsage

from astra_chat.models.answer import Answer
from astra_chat.models.metered import MeteredJudge, tokens_of
from astra_chat.spending.budget import Budget
from astra_chat.spending.meter import Meter
from astra_chat.spending.prices import Price
from tests.chat_samples import FixedJudge

PRICE = Price.model_validate({"in": 1000.0, "cached": 100.0, "out": 1000.0})


@pytest.mark.parametrize(
    ("usage", "content", "expected"),
    [((7, 2), "abc", (7, 2, 0)), ((0, 0), "abcdefghi", (25, 3, 28)), ((0, 0), "", (0, 0, 0))],
)
def test_where_a_server_counts_nothing_it_is_estimated(
    usage: tuple[int, int], content: str, expected: tuple[int, int, int]
) -> None:
    answer = Answer(finish_reason="stop", content=content, usage=RequestUsage(*usage), cached=False)
    found = tokens_of(answer, 99, PRICE)
    assert (found.prompt, found.completion, found.estimated) == expected
    assert (found.usd or 0) > 0 or not content


def test_cancelling_reaches_the_judge() -> None:
    judge = FixedJudge()
    MeteredJudge(judge, Meter(Budget())).cancel()
    assert judge.cancelled.is_set()
