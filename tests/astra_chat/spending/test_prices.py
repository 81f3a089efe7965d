"""Prices from the table and from the user's words."""

from __future__ import annotations

import pytest

from astra_chat.models.openai_options import OpenAIOptions
from astra_chat.spending.prices import FREE, price_of, price_table


def test_every_price_of_the_table_makes_sense() -> None:
    for model, price in price_table().models.items():
        assert 0 < price.usd_cached < price.usd_in < price.usd_out, model


def test_a_dated_model_costs_what_the_undated_one_costs() -> None:
    assert price_of("o4-mini") is not None
    assert price_of("o4-mini-2025-04-16") == price_of("o4-mini")
    assert price_of("gpt-5-2025-08-07") == price_of("gpt-5") != price_of("gpt-5-mini")
    assert price_of("unheard-of") is None and price_of("gpt-5-turbo") is None


def test_cached_tokens_cost_less() -> None:
    price = price_of("o4-mini")
    assert price is not None
    fresh, cached = price.usd(1_000_000, 0, 0), price.usd(1_000_000, 1_000_000, 0)
    assert (fresh, cached) == (price.usd_in, price.usd_cached)
    assert price.usd(1000, 400, 100) == pytest.approx(
        (600 * price.usd_in + 400 * price.usd_cached + 100 * price.usd_out) / 1e6
    )
    assert FREE.usd(10**6, 0, 10**6) == 0
    assert price.usd(10, 900, 0) == price.usd(10, 10, 0), "a server that counts more than there are"


def test_the_users_own_price_comes_first() -> None:
    own = OpenAIOptions(model="o4-mini", usd_in=3, usd_out=9).price
    assert own is not None and (own.usd_in, own.usd_cached, own.usd_out) == (3, 3, 9)
    assert OpenAIOptions(model="mine", usd_in=3).price is None, "half a price is none"
