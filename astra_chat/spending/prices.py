"""What tokens cost, from prices.toml or from the user's own words."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from pydantic import Field

from astra_chat.tools.types import Value

MILLION = 1_000_000
DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(Value):
    """US dollars per million tokens."""

    usd_in: float = Field(alias="in", ge=0)
    usd_cached: float = Field(alias="cached", ge=0)
    usd_out: float = Field(alias="out", ge=0)

    def usd(self, prompt: int, cached: int, completion: int) -> float:
        """Returns the price of one answer in US dollars; `cached`: how many of the prompt's tokens
        were found in a cache."""
        cached = min(cached, prompt)  # some servers count more than there are
        fresh = prompt - cached
        cost = fresh * self.usd_in + cached * self.usd_cached + completion * self.usd_out
        return cost / MILLION


FREE = Price.model_validate({"in": 0, "cached": 0, "out": 0})


class PriceTable(Value):
    as_of: str
    models: dict[str, Price]


@cache
def price_table() -> PriceTable:
    text = files(__package__).joinpath("prices.toml").read_text(encoding="utf-8")
    return PriceTable.model_validate(tomllib.loads(text))


def price_of(model: str) -> Price | None:
    """The price of a model; one with a date in its name costs what the undated one costs."""
    models = price_table().models
    return models.get(model) or models.get(DATED.sub("", model))
