"""The options of a run: given, recorded, read back, changed by those of a resumed run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from astra_chat.agents.limits import Limits
from astra_chat.agents.strategy import Strategy
from astra_chat.transcript.options import RecordedOptions, RunOptions, option_name
from astra_vgpu.ground.errors import BadInput

FILE: TypeAdapter[RunOptions] = TypeAdapter(RecordedOptions)


def test_what_is_not_given_has_its_default() -> None:
    given = RunOptions.given(rounds=7, models=None, strategy="beam:2x3")
    assert given.model_fields_set == {"rounds", "strategy"}
    assert (given.rounds, given.models, given.mutants) == (7, "scripted", 12)
    assert given.strategy == Strategy(kind="beam", parents=2, candidates=3)


def test_they_are_recorded_and_read_back_as_they_are() -> None:
    options = RunOptions.given(
        models="openai:o4-mini",
        tier="paper",
        cases="bench",
        budget="usd=5",
        strategy="beam:4",
        stop_at_percent=90,
        patience=2,
        mutants=0,
        trust=True,
    )
    text = options.model_dump_json()
    assert '"strategy":"beam:4"' in text
    assert FILE.validate_json(text) == options


def test_an_old_transcript_had_no_confirmations_and_no_seeded_bugs() -> None:
    old = FILE.validate_json(
        '{"models":"scripted","tier":"sglang","rounds":3,"repairs":2,"cases":null,"flags":["-O3"]}'
    )
    assert (old.confirmations, old.mutants, old.rounds) == (0, 0, 3)


def test_given_options_take_the_place_of_recorded_ones() -> None:
    recorded = RunOptions(rounds=9, patience=3, stop_at_percent=80, budget="usd=5", mutants=4)
    given = RunOptions.given(patience=0, stop_at_percent=0.0, budget="none", mutants=0)
    changed = recorded.changed(given)
    assert (changed.patience, changed.stop_at_percent, changed.mutants) == (None, None, 0)
    assert (changed.rounds, changed.budget) == (9, "none")
    assert recorded.changed(RunOptions()) == recorded


def test_the_limits_are_those_of_the_options() -> None:
    options = RunOptions(rounds=3, repairs=1, confirmations=2, patience=4, approval="ask")
    assert options.limits == Limits(
        rounds=3,
        repairs=1,
        confirmations=2,
        winner_repairs=2,
        mutants=12,
        patience=4,
        approval=True,
    )
    assert not RunOptions().limits.approval


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 0}, "--rounds 0: it should be greater than or equal to 1"),
        ({"mutants": -1}, "--mutants -1: it should be greater than or equal to 0"),
        ({"tier": "today"}, "--baseline today: it must be sglang or paper"),
        ({"stop_at_percent": 101.0}, "--stop-at 101.0: it should be less than or equal to 100"),
        ({"strategy": "greedy"}, "--strategy greedy: use best, paper"),
        ({"models": "a\nb"}, "--models a"),
        ({"models": "a" * 10_001}, "--models aaa"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        RunOptions.given(**given)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_every_field_is_an_option_of_the_command() -> None:
    assert option_name("stop_at_percent") == "--stop-at" and option_name("tier") == "--baseline"
    assert option_name("accept_recorded_options") == "--accept-recorded-options"
