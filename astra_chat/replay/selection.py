"""Which turns of a recorded run `replay` shows: by number, by round, by role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Speaker
from astra_chat.tools.wording import choices
from astra_chat.transcript.events import Record, TurnEvent
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Selection:
    """Nothing given selects everything."""

    turn: int | None = None
    round: int | None = None
    """0: what came before the first."""
    roles: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.turn is not None or self.round is not None or bool(self.roles)


def chosen_turns(transcript: Transcript, wanted: Selection) -> set[int]:
    """Numbers of the turns to show. Raises BadInput where none is, naming what there is."""
    numbers = [r.turn for r in transcript.records if isinstance(r.event, TurnEvent)]
    turns = turns_of(transcript.records)
    after = list(states(turns))[1:]
    rounds = [len(state.rounds) for state in after]
    _require(transcript, wanted, numbers, rounds)
    found = {
        number
        for number, turn, round_number in zip(numbers, turns, rounds, strict=True)
        if wanted.turn in (None, number)
        and wanted.round in (None, round_number)
        and (not wanted.roles or turn.speaker in wanted.roles)
    }
    if not found:
        raise BadInput(f"{transcript.path}: this role has no turn in this round")
    return found


def belongs_to(record: Record) -> int:
    """Number of the turn that a record is of, or was recorded for."""
    return record.turn if isinstance(record.event, TurnEvent) else record.turn + 1


def _require(
    transcript: Transcript, wanted: Selection, numbers: Sequence[int], rounds: Sequence[int]
) -> None:
    last, path = max(rounds, default=0), transcript.path
    if wanted.turn is not None and wanted.turn not in numbers:
        raise BadInput(f"--turn {wanted.turn}: {path} has turns 1 to {max(numbers, default=0)}")
    if wanted.round is not None and not 0 <= wanted.round <= last:
        raise BadInput(f"--round {wanted.round}: {path} has rounds 0 to {last}")
    for role in wanted.roles:
        if role not in get_args(Speaker):
            raise BadInput(f"--role {role}{choices(role, get_args(Speaker))}")
