"""Every event comes back from its line, and nothing else is taken for one."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from astra_chat.agents.run_state import state_of
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Kernel, Pass, Turn
from astra_chat.session.final_message import ended
from astra_chat.transcript.events import (
    Chosen,
    Contradiction,
    Deviation,
    Event,
    Record,
    RejectedReply,
)
from astra_chat.transcript.writer import events_of
from tests.chat_samples import VECTOR, analysis, baseline_turns, build, header, plan, suite, timed
from tests.chat_samples import evaluation as judged

EVENTS: list[Event] = [
    header(),
    Chosen(decision=Decision(speaker="tester", by="model", legal=("planner", "tester"))),
    *events_of(Turn("tester", suite((7, 12))), set()),
    *events_of(Turn("planner", plan()), set()),
    *events_of(Turn("coder", Kernel(words="w", source=VECTOR)), set()),
    *events_of(Turn("executor", build(VECTOR)), set()),
    *events_of(Turn("executor", judged(VECTOR, timed(1.5))), set()),
    *events_of(Turn("profiler", analysis()), set()),
    *events_of(Turn("planner", Pass(words="nothing")), set()),
    RejectedReply(speaker="planner", reason="why"),
    Contradiction(speaker="planner", reason="why", stands=True),
    Deviation(candidate="c", expected="accepted", found="tie"),
    ended(state_of(baseline_turns()), "no_plan"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_a_line_and_back(event: Event) -> None:
    record = Record(run="r", seq=3, t=1.25, turn=2, event=event)
    assert Record.model_validate_json(record.model_dump_json()) == record


def test_the_envelope() -> None:
    line = json.loads(Record(run="r", seq=3, t=1.25, turn=2, event=EVENTS[-1]).model_dump_json())
    assert list(line) == ["v", "run", "seq", "t", "turn", "event"]


def test_an_unknown_field_is_refused() -> None:
    line = json.loads(Record(run="r", seq=0, t=0, turn=0, event=header()).model_dump_json())
    line["event"]["more"] = 1
    with pytest.raises(ValidationError):
        Record.model_validate(line)
