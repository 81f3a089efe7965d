"""Rows of rounds and turns."""

from __future__ import annotations

from astra_chat import load_transcript
from tests.recorded_files import EXAMPLES, VIRTUAL


def test_a_rounds_gain_is_over_the_best_before() -> None:
    run = load_transcript(EXAMPLES / "h200" / "merge_state_v2.jsonl")
    gains = [row.gain for row in run.rounds]
    assert all(gain >= 1 for gain in gains)
    product = 1.0
    for gain in gains:
        product *= gain
    assert abs(product - (run.rounds[-1].best_ratio or 0)) < 1e-9
    assert [row.failed for row in run.rounds] == [1, 1, 0, 0]


def test_turns_say_who_spoke_for_how_long() -> None:
    run = load_transcript(VIRTUAL)
    assert [row.role for row in run.turns[:5]] == [
        "user",
        "tester",
        "executor",
        "executor",
        "planner",
    ]
    assert abs(sum(row.seconds for row in run.turns) - run.turns[-1].t) < 1e-6
    assert all(row.words for row in run.turns)
    assert {row.chosen_by for row in run.turns} == {"", "rule", "model"}
