"""Models that say again what was said at the same place of a recorded run: its words with a judge
that works, on this machine or another; with --models also some roles' words beside live ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from autogen_core.models import ChatCompletionClient

from astra_chat.agents.prompt import place_of
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Kernel, NextSpeaker, Pass, Payload, Position, RoleName, Thread
from astra_chat.models.offline import OfflineClient, place_in
from astra_chat.models.spec import Role
from astra_chat.spending.prices import FREE, Price
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.types import Basis
from astra_chat.transcript.events import Chosen
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.turns import thread

Said = Mapping[tuple[str, Position], str]
"""Answers as JSON, by who gave them where in the chat."""


class TranscriptModels:
    """One client for each role, all reading the same transcript."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput where that is no transcript."""
        transcript = read(path)
        self.name = f"transcript:{path}"
        self._said: Said = dict(_said(transcript))
        self._found = _found(thread(transcript.records))

    def client(self, role: Role) -> ChatCompletionClient:
        return TranscriptClient(self._said, role)

    def described(self, role: Role) -> str:
        return self.name

    def price(self, role: Role) -> Price | None:
        return FREE

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """What the recorded run's judge found of the same source."""
        return self._found.get(kernel.candidate)

    async def close(self) -> None:
        """Nothing is open."""


class TranscriptClient(OfflineClient):
    """Answers by the place in the chat that the prompt names, and passes where nothing was said."""

    def __init__(self, said: Said, role: Role) -> None:
        self._said, self._role = said, role

    def answer(self, prompts: Sequence[str]) -> str:
        """The recorded answer. Raises ValueError if no prompt names its place."""
        nothing = "the recorded run holds no such turn"
        otherwise = _reply(Pass(words=nothing))
        if self._role == "selector":
            otherwise = NextSpeaker(choose=nothing).model_dump_json()
        return self._said.get((self._role, place_in(prompts)), otherwise)


def _said(transcript: Transcript) -> Iterator[tuple[tuple[str, Position], str]]:
    """What models said, roles and selector, each with its place."""
    turns = thread(transcript.records)
    every = list(states(turns, transcript.options.limits))
    for before, turn in zip(every, turns, strict=False):
        for role in get_args(RoleName):
            if turn.speaker == role:
                yield (role, place_of(role, before)), _reply(turn.payload)
    for record in transcript.records:
        match record.event:
            case Chosen(decision=decision) if decision.by == "model":
                place = every[record.turn].position("selector")
                answer = NextSpeaker(choose=decision.speaker).model_dump_json()
                yield ("selector", place), answer
            case _:
                pass


def _reply(payload: Payload) -> str:
    """A turn as the reply that it was; a kernel that was given as edits, as a whole."""
    return f'{{"reply": {payload.model_dump_json(exclude={"edits"})}}}'


def _found(turns: Thread) -> dict[str, str]:
    """The search's verdict on each candidate, the last where there are several."""
    found: dict[str, str] = {}
    for turn in turns:
        match turn.payload:
            case BuildReport(candidate=candidate, result=result) as report if failed(report):
                found[candidate] = verdict(result)
            case Evaluation(candidate=candidate, outcome=outcome, confirms=False):
                found[candidate] = verdict(outcome)
            case _:
                pass
    return found
