"""The prompts of a recorded run, rebuilt by the function that made them: `replay --prompts`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

from astra_chat.agents.fact_check import ask_to_check
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.reply_errors import ask_again
from astra_chat.agents.roles import instructions
from astra_chat.agents.run_state import RunState, states
from astra_chat.agents.selector import question
from astra_chat.agents.task_text import basis_of, device_text
from astra_chat.agents.turn_order import next_step, speakers
from astra_chat.agents.turns import RoleName, Speaker
from astra_chat.models.spec import Role
from astra_chat.spending.budget import parse_budget
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.transcript.events import Contradiction, Event, Record, RejectedReply
from astra_chat.transcript.ledger import ledger
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import task_of
from astra_chat.transcript.spending import ModelCall
from astra_chat.transcript.turns import finished, turns_of
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Prompt:
    """The prompts of a model before a turn."""

    turn: int
    """From 1, as a replay counts them."""
    role: Role
    system: str
    """The standing instructions, the same in every turn; the selector has none."""
    user: str
    again: tuple[str, ...] = ()
    """What followed on replies of that turn that were sent back."""


def prompts(transcript: Transcript, only: int | None = None) -> Iterator[Prompt]:
    """Yields the prompts of every turn that a model spoke or was chosen for by one, or of one turn.

    Raises BadInput where that turn had none.
    """
    turns = turns_of(transcript.records)
    numbers = range(1, len(turns) + 1)
    if only is not None and only not in numbers:
        raise BadInput(f"--turn {only}: {transcript.path} has turns 1 to {len(turns)}")
    with task_of(transcript, None) as task:
        context = ChatContext(
            task=task,
            baseline=baseline_source(task, transcript.header.options.tier),
            tier=transcript.header.options.tier,
            device=device_text(transcript.header.device),
            basis=basis_of(transcript.header.device),
        )
        budget = parse_budget(transcript.options.budget)
        sent_back = _sent_back(transcript)
        before = list(states(turns, transcript.options.limits))
        for number in numbers if only is None else [only]:
            speaker, again = turns[number - 1].speaker, sent_back.get(number, ())
            spent = ledger(_asked_before(transcript, number))
            left = budget.left(spent.tokens, spent.evaluations)
            now = replace(context, budget_left=partial(str, left))
            found = [
                one if one.role == "selector" else replace(one, again=again)
                for one in _of_turn(now, before[number - 1], speaker, number)
            ]
            if only is not None and not found:
                raise BadInput(f"--turn {only}: the {speaker} is not a model and gets no prompt")
            yield from found


def _of_turn(
    context: ChatContext, before: RunState, speaker: Speaker, number: int
) -> Iterator[Prompt]:
    """The selector's, if a model chose the speaker; then the speaker's."""
    legal = speakers(next_step(before))
    if len(legal) > 1:
        yield Prompt(number, "selector", "", question(before, legal))
    if speaker in get_args(RoleName):
        role: RoleName = speaker  # type: ignore[assignment]
        system = instructions(role, context.basis, before.limits.languages)
        yield Prompt(number, role, system, turn_prompt(role, context, before))


def _asked_before(transcript: Transcript, turn: int) -> list[Record]:
    """What was recorded when the speaker of a turn was asked: the selector had answered."""
    return [
        record
        for record in finished(transcript.records)
        if record.turn < turn - 1
        or (record.turn == turn - 1 and not _is_of_next_turn(record.event))
    ]


def _is_of_next_turn(event: Event) -> bool:
    return isinstance(event, ModelCall) and event.role != "selector"


def _sent_back(transcript: Transcript) -> dict[int, tuple[str, ...]]:
    """Reasons for which replies were sent back, by the turn that followed."""
    found: dict[int, list[str]] = {}
    for record in finished(transcript.records):
        match record.event:
            case RejectedReply(reason=reason):
                found.setdefault(record.turn + 1, []).append(ask_again(reason))
            case Contradiction(reason=reason, stands=False):
                found.setdefault(record.turn + 1, []).append(ask_to_check(reason))
            case _:
                pass
    return {turn: tuple(words) for turn, words in found.items()}
