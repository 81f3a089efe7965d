"""The prompts of a recorded run, rebuilt by the function that made them: `replay --prompts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from astra_chat.agents.brief import Setting, brief
from astra_chat.agents.payloads import RoleName
from astra_chat.agents.roles import instructions
from astra_chat.agents.thread import Turn
from astra_chat.recorded_task import task_of
from astra_chat.tools.errors import BadInput
from astra_chat.tools.judge import baseline_source
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import thread


@dataclass(frozen=True)
class Prompt:
    """What a role was told before a turn."""

    turn: int
    """From 1, as a replay counts them."""
    role: RoleName
    system: str
    """The standing instructions, the same in every turn."""
    user: str


def prompts(transcript: Transcript, only: int | None = None) -> Iterator[Prompt]:
    """Of every turn that a model spoke, or of one. Raises BadInput where that turn had none."""
    turns = thread(transcript.records)
    if only is not None:
        _require_model(transcript, turns, only)
    with task_of(transcript, None) as task:
        setting = Setting(
            task=task,
            baseline=baseline_source(task, transcript.header.options.tier),
            tier=transcript.header.options.tier,
            device=transcript.header.device.name,
            limits=transcript.options.limits,
        )
        for number, turn in enumerate(turns, 1):
            if turn.speaker in get_args(RoleName) and only in (None, number):
                role: RoleName = turn.speaker  # type: ignore[assignment]
                said = brief(role, setting, turns[: number - 1])
                yield Prompt(number, role, instructions(role), said)


def _require_model(transcript: Transcript, turns: Sequence[Turn], number: int) -> None:
    if not 0 < number <= len(turns):
        raise BadInput(f"--turn {number}: {transcript.path} has turns 1 to {len(turns)}")
    speaker = turns[number - 1].speaker
    if speaker not in get_args(RoleName):
        raise BadInput(f"--turn {number}: the {speaker} is no model and gets no prompt")
