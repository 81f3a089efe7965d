"""The selector's question names the legal speakers, the last analysis and the place."""

from __future__ import annotations

from astra_chat.agents.position import read_position
from astra_chat.agents.run_state import state_of
from astra_chat.agents.selector_prompt import question
from astra_chat.agents.turns import Turn
from tests.chat_samples import analysis, baseline_turns, plan


def test_it_names_who_may_speak_what_was_said_and_where_it_is_asked() -> None:
    said = analysis("unsure").model_copy(update={"words": "Two\nlines."})
    turns = [*baseline_turns(), Turn("planner", plan()), Turn("profiler", said)]
    text = question(state_of(turns), ("planner", "tester"))
    assert "one of: planner, tester." in text and "The profiler's analysis: Two lines.\n" in text
    place = read_position(text)
    assert place is not None and (place.round, place.attempt) == (1, 1)
