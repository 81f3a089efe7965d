"""Recorded runs are regression tests: each reads back, replays, and still means what it meant."""

from __future__ import annotations

import json

import pytest

from astra_chat.agents.run_state import state_of, states
from astra_chat.agents.turn_order import next_step, speakers
from astra_chat.replay.show import replay
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import MeasuredTime, Timed
from astra_chat.transcript.events import VERSION, Chosen
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_chat.transcript.turns import finished, turns_of
from tests.recorded_files import PLAIN, examples


@pytest.fixture(params=examples(), ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> Transcript:
    return read(request.param)


def timed(transcript: Transcript) -> list[Timed]:
    said = [turn.payload for turn in turns_of(transcript.records)]
    evaluations = [payload for payload in said if isinstance(payload, Evaluation)]
    return [e.outcome for e in evaluations if isinstance(e.outcome, Timed)]


def test_there_is_one_of_every_format_version() -> None:
    """Old ones prove the migrations. A new version needs a run recorded by it."""
    versions = {json.loads(read_recorded(path).partition(b"\n")[0])["v"] for path in examples()}
    assert versions == set(range(1, VERSION + 1))


def test_it_is_whole(example: Transcript) -> None:
    assert incompleteness(example) is None
    assert example.ended is not None and example.ended.reason not in ("error", "interrupted")


def test_replay_shows_every_turn_and_the_result(
    example: Transcript, capsys: pytest.CaptureFixture[str]
) -> None:
    replay(example)
    shown = capsys.readouterr().out
    for number in range(1, len(turns_of(example.records)) + 1):
        assert f"\n{number:3d}  " in shown
    ended = example.ended
    assert ended is not None and ended.best is not None and ended.ratio is not None
    assert ended.best in shown and f"{ended.basis} {ended.ratio:.2f}x" in shown


def test_todays_turn_order_would_have_allowed_it(example: Transcript) -> None:
    turns, limits = turns_of(example.records), example.header.options.limits
    records = finished(example.records)
    decisions = [r.event.decision for r in records if isinstance(r.event, Chosen)]
    assert len(decisions) == len(turns) - 1
    _, *after = states(turns, limits)
    for before, turn, decision in zip(after, turns[1:], decisions, strict=False):
        assert decision.legal == speakers(next_step(before))
        assert turn.speaker == decision.speaker


def test_todays_rules_give_the_same_verdicts(example: Transcript) -> None:
    found = timed(example)
    assert len(found) >= 3
    for outcome in found:
        ratio, verdict, _ = judge_times(outcome.cases)
        assert ratio == pytest.approx(outcome.ratio) and verdict == outcome.verdict


def test_the_best_is_the_best(example: Transcript) -> None:
    best = state_of(turns_of(example.records)).best
    assert best is not None and example.ended is not None
    assert (best[0].candidate, best[1].ratio) == (example.ended.best, example.ended.ratio)


def test_a_measured_run_names_its_gpu_and_clocks() -> None:
    transcript = read(PLAIN / "silu_and_mul-h200.jsonl.xz")
    assert transcript.header.device.name == "NVIDIA H200"
    cases = [case for outcome in timed(transcript) for case in outcome.cases]
    assert cases
    assert all(isinstance(case, MeasuredTime) and case.sm_clock_mhz > 1000 for case in cases)
