"""Every turn of a run as text, as a live run shows it, and what was recorded between turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Kernel, Turn
from astra_chat.display.spending_view import asked_whom
from astra_chat.display.turn_view import chosen_text, objection_text, turn_lines
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.text import one_line
from astra_chat.transcript.events import (
    Blob,
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Deviation,
    Event,
    Judged,
    Proposed,
    Record,
    RejectedReply,
    Resumed,
    Unknown,
)
from astra_chat.transcript.spending import ModelCall
from astra_chat.transcript.turns import turn

WIDTH = 120
"""Columns of a line of source, which is cut there; the whole is among the rounds."""


@dataclass
class TurnText:
    """One turn."""

    number: int
    speaker: str
    kind: str
    seconds: float
    """Since the run began."""
    chosen: str
    """Who chose the speaker."""
    lines: list[tuple[str, str]]
    """Each with its style: "", dim, good, tie, bad or strong."""
    round: int
    """0: before the first."""
    candidate: str = ""
    before: list[str] = field(default_factory=list)
    """What was recorded before it: replies that were sent back, answers of models."""

    @property
    def title(self) -> str:
        """Its first line, which names it in a list."""
        return self.lines[0][0] if self.lines else self.kind


@dataclass
class Texts:
    """All turns of a run."""

    turns: list[TurnText]
    after: list[str]
    """What was recorded after the last turn."""


class TurnTexts:
    """Makes the texts record by record, so that a run under way can be followed."""

    def __init__(self) -> None:
        self.turns: list[TurnText] = []
        self._state = RunState()
        self._texts: dict[str, str] = {}
        self._decision: Decision | None = None
        self._asides: list[str] = []

    @property
    def after(self) -> list[str]:
        """What was recorded since the last turn."""
        return list(self._asides)

    @property
    def state(self) -> RunState:
        return self._state

    def add(self, record: Record) -> None:
        match record.event:
            case Blob(sha256=sha, text=text):
                self._texts[sha] = text
            case Chosen(decision=decision):
                self._decision = decision
            case ChatMessage() | Proposed() | BuildDone() | Judged() as event:
                self._add_turn(record, turn(event, self._texts))
            case Resumed():
                self._decision = None
                self._asides.append(aside(record.event))
            case event:
                if words := aside(event):
                    self._asides.append(words)

    def _add_turn(self, record: Record, said: Turn) -> None:
        lines = [
            (line, _style(text))
            for text in turn_lines(said, self._state, self._texts, WIDTH)
            for line in text.plain.splitlines() or [""]
        ]
        decision, self._decision = self._decision, None
        before, self._asides = self._asides, []
        self._state = self._state.after(said)
        self.turns.append(
            TurnText(
                record.turn,
                said.speaker,
                said.kind,
                record.t,
                chosen_text(decision, said),
                lines,
                len(self._state.rounds),
                _candidate(said),
                before,
            )
        )


def texts_of(records: Sequence[Record]) -> Texts:
    texts = TurnTexts()
    for record in records:
        texts.add(record)
    return Texts(texts.turns, texts.after)


def aside(event: Event) -> str:
    """An event that is no turn, in one line; "" for those that say nothing to a reader."""
    match event:
        case RejectedReply() | Contradiction() as objection:
            return objection_text(objection)
        case Deviation(candidate=candidate, expected=expected, found=found):
            return f"not as expected: {expected} for {candidate}, but the judge found {found}"
        case Resumed(started=started):
            return f"resumed on {started}"
        case ModelCall(tokens=tokens) as asked:
            return f"{asked_whom(asked)}: {tokens.prompt:,} tokens in, {tokens.completion:,} out"
        case Unknown(kind=kind):
            return f"an event of a kind unknown to this version: {one_line(kind)[:80]}"
        case _:
            return ""


def _style(text: Text) -> str:
    style = str(text.style)
    for word, name in (
        ("red", "bad"),
        ("yellow", "tie"),
        ("green", "good"),
        ("dim", "dim"),
        ("bold", "strong"),
    ):
        if word in style:
            return name
    return ""


def _candidate(said: Turn) -> str:
    match said.payload:
        case Kernel() | BuildReport() | Evaluation() as payload:
            return payload.candidate
        case _:
            return ""
