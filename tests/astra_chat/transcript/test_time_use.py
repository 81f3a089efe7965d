"""Where a run's time went: each record ends what it tells of."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Approval
from astra_chat.tools.types import Device
from astra_chat.transcript.events import BuildDone, ChatMessage, Chosen, Event, Judged, Record
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.time_use import TimeUse, sum_of, time_use
from tests.chat_samples import SCALAR, build, evaluation, header, timed

GPU = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")


def timeline(*events: tuple[float, Event]) -> list[Record]:
    return [
        Record(run="r", seq=seq, t=t, turn=0, event=event) for seq, (t, event) in enumerate(events)
    ]


def test_every_second_is_counted_once() -> None:
    judged = evaluation(SCALAR, timed(1.0, "tie")).model_copy(update={"device": GPU})
    by_rule = Decision(speaker="coder", by="rule", legal=("coder",))
    by_model = Decision(speaker="coder", by="model", legal=("coder", "planner"))
    used = time_use(
        timeline(
            (0.0, header()),
            (0.5, Chosen(decision=by_rule)),
            (4.5, ModelCall(role="coder", model="m", tokens=Tokens())),
            (6.5, BuildDone(report=build(SCALAR))),
            (9.5, Judged(evaluation=judged)),
            (10.5, Chosen(decision=by_model)),
            (
                17.5,
                ChatMessage(
                    speaker="human", payload=Approval(candidate=12 * "a", decision="approve")
                ),
            ),
        )
    )
    assert used == TimeUse(
        other_s=0.5,
        models_s=5.0,
        build_s=2.0,
        judge_s=3.0,
        human_s=7.0,
        device_s=0.3,
        outside_steps_s=2.7,
    )
    assert used.whole_s == 17.5 and used.device_share == pytest.approx(0.3 / 17.5)
    assert sum_of([used, used]).models_s == 10.0 and TimeUse().device_share == 0.0


def test_of_a_recorded_run_on_a_gpu() -> None:
    """Its parts add up to the time of its last record, and a GPU worked in some of it."""
    path = Path(__file__).resolve().parents[3] / "transcripts/examples/silu_and_mul-h200.jsonl.xz"
    records = read(path).records
    used = time_use(records)
    assert used.whole_s == pytest.approx(records[-1].t - records[0].t, abs=0.01)
    assert 0 < used.device_s <= used.judge_s and 0 < used.device_share < 1
