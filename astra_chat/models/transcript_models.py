"""Models that repeat the replies of a recorded run, with a judge that works now. Roles may be mixed
with live ones in --models. A task may have such a run in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from astra_chat.agents.position import position_of
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Kernel, NextSpeaker, Pass, Payload, Position, RoleName, Turns
from astra_chat.models.offline import OfflineClient, position_in
from astra_chat.models.spec import Role
from astra_chat.spending.prices import FREE, Price
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.task.folder import TRANSCRIPT, Task
from astra_chat.tools.task.shipped import shipped_folder
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Basis
from astra_chat.transcript.events import Chosen, RepeatedRun
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.spending import ModelCall
from astra_chat.transcript.turns import turns_of

Replies = Mapping[tuple[str, Position], str]
"""Replies as JSON, by role and position in the chat."""
MAX_NAME, MAX_NAMES = 100, 8
"""Characters of a name, and names, of those who answered."""


class TranscriptModels:
    """One client for each role, all reading the same transcript."""

    def __init__(self, path: Path, name: str = "") -> None:
        """`name`: in --models. Raises BadInput if it is not a transcript."""
        transcript = read(path)
        self.name = name or f"transcript:{path}"
        self.repeats = _repeated(transcript)
        self._replies: Replies = dict(_replies(transcript))
        self._verdicts = _verdicts(turns_of(transcript.records))

    def client(self, role: Role) -> TranscriptClient:
        return TranscriptClient(self._replies, role)

    def described(self, role: Role) -> str:
        return self.name

    def price(self, role: Role) -> Price | None:
        return FREE

    def expected(self, kernel: Kernel, place: Position, basis: Basis = "measured") -> str | None:
        """The recorded verdict on the same source."""
        return self._verdicts.get(kernel.candidate)

    async def close(self) -> None:
        """Nothing is open."""


class TranscriptClient(OfflineClient):
    """Looks up replies by the position that the prompt states; passes if there is none."""

    def __init__(self, replies: Replies, role: Role) -> None:
        self._replies, self._role = replies, role

    def answer(self, prompts: Sequence[str]) -> str:
        """The recorded reply. Raises ValueError if no prompt states its position."""
        nothing = "this turn does not exist in the recorded run"
        otherwise = _reply(Pass(words=nothing))
        if self._role == "selector":
            otherwise = NextSpeaker(choose=nothing).model_dump_json()
        return self._replies.get((self._role, position_in(prompts)), otherwise)


def own_transcript(task: Task) -> Path | None:
    """The recorded run that a task has in its folder. A shipped task that was restored from a
    transcript has it where it was installed."""
    shipped = shipped_folder(task.name) / TRANSCRIPT
    return task.recorded_run or (shipped if shipped.is_file() else None)


def _repeated(transcript: Transcript) -> RepeatedRun:
    """What the header of a run says about the one whose replies it repeats: the original, where
    that one repeats another."""
    if transcript.header.repeats is not None:
        return transcript.header.repeats
    calls = [r.event for r in transcript.records if isinstance(r.event, ModelCall)]
    ended = transcript.ended
    who = dict.fromkeys(one_line(call.answered_by or call.model)[:MAX_NAME] for call in calls)
    return RepeatedRun(
        run=transcript.records[0].run,
        started=transcript.header.started,
        models=transcript.header.options.models,
        answered_by="; ".join(list(who)[:MAX_NAMES]),
        best=(ended.best or "") if ended else "",
        ratio=ended.ratio if ended else None,
        basis=ended.basis if ended else None,
        rounds=transcript.options.rounds or 0,
    )


def _replies(transcript: Transcript) -> Iterator[tuple[tuple[str, Position], str]]:
    """The replies of roles and selector, each with its position."""
    turns = turns_of(transcript.records)
    every = list(states(turns, transcript.options.limits))
    for before, turn in zip(every, turns, strict=False):
        for role in get_args(RoleName):
            if turn.speaker == role:
                yield (role, position_of(role, before)), _reply(turn.payload)
    for record in transcript.records:
        match record.event:
            case Chosen(decision=decision) if decision.by == "model":
                position = every[record.turn].position("selector")
                answer = NextSpeaker(choose=decision.speaker).model_dump_json()
                yield ("selector", position), answer
            case _:
                pass


def _reply(payload: Payload) -> str:
    """A turn as a reply; a kernel that was given as edits becomes a whole source."""
    return f'{{"reply": {payload.model_dump_json(exclude={"edits"})}}}'


def _verdicts(turns: Turns) -> dict[str, str]:
    """The search's verdict on each candidate, the last where there are several."""
    verdicts: dict[str, str] = {}
    for turn in turns:
        match turn.payload:
            case BuildReport(candidate=candidate, result=result) as report if failed(report):
                verdicts[candidate] = verdict(result)
            case Evaluation(candidate=candidate, outcome=outcome, confirms=False):
                verdicts[candidate] = verdict(outcome)
            case _:
                pass
    return verdicts
