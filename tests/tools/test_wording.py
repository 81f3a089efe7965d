"""Numbers with their nouns, and the name that was meant."""

from __future__ import annotations

import math

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from astra_chat.tools.wording import choices, counted, did_you_mean, invalid


class Limits(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tokens: float = Field(default=1, le=10)
    judge: str = Field(default="a", pattern="^[ab]$")


def test_one_is_singular() -> None:
    assert [counted(n, "case") for n in (0, 1, 2, 1234)] == [
        "0 cases",
        "1 case",
        "2 cases",
        "1,234 cases",
    ]
    assert counted(2, "bug that changes", "bugs that change") == "2 bugs that change"


def test_a_typo_is_answered_by_the_name_that_was_meant() -> None:
    names = ("silu_and_mul", "rmsnorm", "topk_softmax")
    assert did_you_mean("silu_nd_mul", names) == "; did you mean silu_and_mul?"
    assert did_you_mean("RMSNorm", names) == "; did you mean rmsnorm?"
    assert did_you_mean("xyz", names) == ""
    assert did_you_mean("silu", names) == "; did you mean silu_and_mul?"
    assert did_you_mean("softmax", names) == "; did you mean topk_softmax?"
    assert did_you_mean("oracle", ("google", "scripted", "openai")) == ""
    assert choices("demmo", ("demo", "bench")) == ": use demo or bench; did you mean demo?"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tokns": 3}, "unknown key tokns; did you mean tokens?"),
        ({"zzz": 3}, "unknown key zzz; the keys are tokens, judge"),
        ({"tokens": math.nan}, "it is not a number"),
        ({"tokens": "nan"}, "it is not a number"),
        ({"tokens": 11}, "it should be less than or equal to 10"),
    ],
)
def test_what_is_invalid_is_said_without_pydantic_s_words(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Limits.model_validate(given)
    assert invalid(caught.value.errors()[0], Limits.model_fields) == said
