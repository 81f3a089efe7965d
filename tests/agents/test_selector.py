"""The selector: rule where one may speak, a model held to the legal two where two may."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from autogen_core.models import ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient

from astra_chat.agents.messages import SharedState
from astra_chat.agents.position import read_position
from astra_chat.agents.reply_errors import TRIES
from astra_chat.agents.run_state import state_of
from astra_chat.agents.selector import Selector, question
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Turn
from tests.chat_samples import VECTOR, analysis, baseline_turns, coded, evaluation, plan, timed

INFO = ModelInfo(
    vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True
)
LEGAL = ("planner", "tester")
UNSURE = [
    *baseline_turns(),
    Turn("planner", plan()),
    *coded(VECTOR),
    Turn("executor", evaluation(VECTOR, timed(1.5))),
    Turn("profiler", analysis("unsure")),
]


def decide(turns: Sequence[Turn], answers: Sequence[str]) -> Decision:
    """The decision that the selector records for a thread."""
    client = ReplayChatCompletionClient(list(answers), model_info=INFO)
    selector = Selector(SharedState(state_of(turns)), client, lambda error: None)
    name = asyncio.run(selector.next_speaker([]))
    assert [decision.speaker for decision in selector.decisions] == [name]
    return selector.decisions[0]


def test_one_legal_speaker_needs_no_model() -> None:
    assert decide(baseline_turns(), []) == Decision(
        speaker="planner", by="rule", legal=("planner",)
    )


@pytest.mark.parametrize("choice", LEGAL)
def test_between_two_the_model_chooses(choice: str) -> None:
    decision = decide(UNSURE, [f'{{"choose": "{choice}"}}'])
    assert decision.speaker == choice and decision.by == "model" and decision.legal == LEGAL


def test_an_illegal_choice_goes_back_in_words() -> None:
    decision = decide(UNSURE, ['{"choose": "coder"}', "tester, please", '{"choose": "tester"}'])
    assert decision.speaker == "tester" and decision.by == "model"
    assert "'coder' may not act at this point" in decision.rejected[0]
    assert len(decision.rejected) == 2


def test_without_a_legal_choice_the_rule_decides_and_says_so() -> None:
    decision = decide(UNSURE, ['{"choose": "executor"}'] * TRIES)
    assert decision.speaker == "planner" and decision.by == "rule"
    assert len(decision.rejected) == TRIES


def test_a_failing_model_is_handed_over() -> None:
    failures: list[Exception] = []
    selector = Selector(
        SharedState(state_of(UNSURE)),
        ReplayChatCompletionClient([], model_info=INFO),
        failures.append,
    )
    with pytest.raises(ValueError, match="No more mock responses"):
        asyncio.run(selector.next_speaker([]))
    assert len(failures) == 1 and not selector.decisions


def test_it_names_who_may_speak_what_was_said_and_where_it_is_asked() -> None:
    said = analysis("unsure").model_copy(update={"words": "Two\nlines."})
    turns = [*baseline_turns(), Turn("planner", plan()), Turn("profiler", said)]
    text = question(state_of(turns), ("planner", "tester"))
    assert "one of: planner, tester." in text and "The profiler's analysis: Two lines.\n" in text
    place = read_position(text)
    assert place is not None and (place.round, place.attempt) == (1, 1)
