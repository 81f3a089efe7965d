"""Spans of a real scripted run, by OpenTelemetry's own exporter in memory."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from astra_chat.session.run_events import Silent
from astra_chat.session.session import run_request
from astra_chat.session.telemetry import ENDPOINT, Spans, traced
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.events import Record
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_vgpu.ground.errors import MissingDependency
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import KERNELS, FixedJudge


@pytest.fixture
def records(task: Task, tmp_path: Path, fixed_judge: FixedJudge) -> list[Record]:
    request = chat_request(task, tmp_path / "out")
    return read(run_request(request, judge=fixed_judge).transcript).records


def spans_of(records: list[Record], now: float = 0.0) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider, lambda: now)
    for record in records:
        spans.hear(record)
    return list(exporter.get_finished_spans())


def test_one_trace_with_a_span_for_each_turn_and_step(records: list[Record]) -> None:
    found = spans_of(records)
    (root,) = [span for span in found if span.parent is None]
    assert root.name == "run doubled" and dict(root.attributes or {})["astra.end"] == "no_plan"
    assert len({span.context.trace_id for span in found if span.context}) == 1
    turns = [span for span in found if span.name.startswith("turn ")]
    assert len(turns) == records[-1].turn
    steps = [span.name for span in found if span.name.startswith("judge ")]
    assert "judge build" in steps and "judge guard" in steps
    outcomes = [dict(turn.attributes or {}).get("astra.outcome") for turn in turns]
    assert {"built", "build_failed", "wrong", "accepted"} <= set(outcomes)
    for span in found:
        assert span.start_time is not None and span.end_time is not None
        assert span.start_time <= span.end_time


def test_answers_of_live_models_carry_tokens_and_cost(records: list[Record]) -> None:
    asked = ModelCall(
        role="planner", model="openai:o4-mini", tokens=Tokens(prompt=900, completion=70, usd=0.25)
    )
    index = next(i for i, r in enumerate(records) if r.event.kind == "message" and r.turn == 2)
    before = records[index].model_copy(update={"event": asked})
    found = spans_of([*records[:index], before, *records[index:]])
    (chat,) = [span for span in found if span.name == "chat openai:o4-mini"]
    about = dict(chat.attributes or {})
    assert about["gen_ai.usage.input_tokens"] == 900 and about["astra.usd"] == 0.25
    turn = next(span for span in found if span.name == "turn tester")
    assert chat.parent is not None and turn.context is not None
    assert chat.parent.span_id == turn.context.span_id


def test_no_source_and_no_words_are_in_attributes(records: list[Record]) -> None:
    told = " ".join(str(dict(span.attributes or {})) for span in spans_of(records))
    assert "__global__" not in told and KERNELS["vector.cu"][:40] not in told
    assert "The loop, rewritten" not in told


def test_earlier_sessions_are_not_told_again(records: list[Record]) -> None:
    assert spans_of(records, now=4e9) == []


def test_nothing_is_sent_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINT:
        monkeypatch.delenv(name, raising=False)
    silent = Silent()
    assert traced(silent) is silent


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT[0], "http://localhost:1")
    there = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("opentelemetry.exporter"):
            raise ImportError(name)
        return there(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingDependency, match=r"pip install 'astra-chat\[otel\]'"):
        traced(Silent())
