"""Spans of a run for OpenTelemetry, made of its records as they come (the extra `otel`).

One span for the run, below it one for each turn, below that one for each answer of a model and
each step of the judge. Names follow the semantic conventions for generative AI where they have
one, ours begin with `astra.`. Prompts, kernels and keys are in no attribute. The spans go to a
provider of our own: AutoGen's, which use the process's global one, stay apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from astra_chat.session.run_events import RunEvents
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import Built, Step
from astra_chat.tools.types import Timed
from astra_chat.transcript.events import (
    BuildDone,
    ChatMessage,
    Ended,
    Header,
    Judged,
    Proposed,
    Record,
)
from astra_chat.transcript.spending import ModelCall
from astra_chat.version import __version__
from astra_vgpu.ground.errors import MissingDependency

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

ENDPOINT = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own settings; where one is set, a run sends its spans there."""
LACK = (
    "spans need OpenTelemetry's SDK: pip install 'astra-chat[otel]', or unset"
    " OTEL_EXPORTER_OTLP_ENDPOINT"
)
NS = 1_000_000_000

Attributes = dict[str, str | int | float | bool]


def exporting() -> TracerProvider:
    """A provider that sends spans where OpenTelemetry's environment variables say.

    Raises MissingDependency without the SDK.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise MissingDependency(LACK) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "astra-chat"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def traced(events: RunEvents) -> RunEvents:
    """`events`, and spans too where the user set an endpoint. Raises MissingDependency."""
    if not any(os.environ.get(name) for name in ENDPOINT):
        return events
    return Traced(events, Spans(exporting(), time.time))


class Traced:
    """Passes everything on, and makes spans of the records."""

    def __init__(self, events: RunEvents, spans: Spans) -> None:
        self._events, self._spans = events, spans
        self.progress, self.notice = events.progress, events.notice

    def record(self, record: Record) -> None:
        self._events.record(record)
        self._spans.hear(record)


class Spans:
    """Receives a run's records. A resumed run does not export those of earlier sessions again."""

    def __init__(self, provider: TracerProvider, now: Callable[[], float]) -> None:
        """`now`: seconds since the epoch."""
        self._provider = provider
        self._tracer = provider.get_tracer("astra_chat", __version__)
        self._born = now()
        self._start = self._last = 0.0
        self._root: Span | None = None
        self._waiting: list[tuple[float, ModelCall]] = []

    def hear(self, record: Record) -> None:
        """Records come in order; the first is the header."""
        event = record.event
        if isinstance(event, Header):
            self._start = datetime.fromisoformat(event.started).timestamp()
            self._header, self._run = event, record.run
        if self._at(record.t) < self._born - 1:
            self._last = record.t
            return
        if self._root is None:
            self._root = self._open()
        match event:
            case ModelCall():
                self._waiting.append((record.t, event))
                return
            case ChatMessage(speaker=speaker) | Proposed(speaker=speaker):
                self._turn(record, speaker, {})
            case BuildDone(report=report):
                built = isinstance(report.result, Built)
                found = "built" if built else report.result.kind
                self._turn(record, "executor", _judged(report.candidate, found), report.steps)
            case Judged(evaluation=one):
                about = _judged(one.candidate, verdict(one.outcome))
                about["astra.confirms"] = one.confirms
                if isinstance(one.outcome, Timed):
                    about["astra.ratio"] = one.outcome.ratio
                    about["astra.basis"] = one.outcome.basis
                self._turn(record, "executor", about, one.steps)
            case Ended():
                self._end(record, event)
            case _:
                return
        self._last = record.t

    def _open(self) -> Span:
        head = self._header
        return self._tracer.start_span(
            f"run {head.task.name}",
            start_time=self._ns(self._last),
            attributes={
                "astra.run": self._run,
                "astra.task": head.task.name,
                "astra.device": head.device.name,
                "astra.models": head.options.models,
                "astra.strategy": str(head.options.strategy),
            },
        )

    def _turn(
        self, record: Record, speaker: str, about: Attributes, steps: Sequence[Step] = ()
    ) -> None:
        span = self._span(
            f"turn {speaker}",
            self._last,
            self._root,
            {
                "astra.turn": record.turn,
                "gen_ai.agent.name": speaker,
                **about,
            },
        )
        begun = self._last
        for at, asked in self._waiting:
            self._span(f"chat {asked.model}", begun, span, _asked(asked)).end(self._ns(at))
            begun = at
        self._waiting.clear()
        begun = record.t - sum(step.seconds for step in steps)
        for step in steps:
            child = self._span(f"judge {step.name}", begun, span, {"astra.step": step.name})
            begun += step.seconds
            child.end(self._ns(begun))
        span.end(self._ns(record.t))

    def _span(self, name: str, start: float, parent: Span | None, about: Attributes) -> Span:
        from opentelemetry.trace import set_span_in_context

        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(
            name, context=context, start_time=self._ns(start), attributes=about
        )

    def _end(self, record: Record, ended: Ended) -> None:
        assert self._root is not None
        self._root.set_attribute("astra.end", ended.reason)
        if ended.ratio is not None and ended.basis is not None:
            self._root.set_attribute("astra.ratio", ended.ratio)
            self._root.set_attribute("astra.basis", ended.basis)
        self._root.end(self._ns(record.t))
        self._provider.force_flush()

    def _at(self, t: float) -> float:
        return self._start + t

    def _ns(self, t: float) -> int:
        return int(self._at(t) * NS)


def _judged(candidate: str, found: str) -> Attributes:
    return {"astra.candidate": candidate, "astra.outcome": found}


def _asked(asked: ModelCall) -> Attributes:
    tokens = asked.tokens
    about: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": asked.model,
        "gen_ai.agent.name": asked.role,
        "gen_ai.usage.input_tokens": tokens.prompt,
        "gen_ai.usage.output_tokens": tokens.completion,
        "astra.cached_tokens": tokens.cached,
    }
    if tokens.usd is not None:
        about["astra.usd"] = tokens.usd
    return about
