"""Which turns are chosen, and which records belong to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.replay.show import Selection, belongs_to, chosen_turns
from astra_chat.transcript.events import Chosen
from astra_chat.transcript.reader import Transcript, read
from astra_vgpu.ground.errors import BadInput

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recorded() -> Transcript:
    return read(ROOT / "transcripts/examples/virtual/silu_and_mul.jsonl.xz")


def test_rounds_part_the_turns(recorded: Transcript) -> None:
    parts = [chosen_turns(recorded, Selection(round=number)) for number in range(6)]
    everything = chosen_turns(recorded, Selection())
    assert set().union(*parts) == everything and sum(map(len, parts)) == len(everything)
    assert parts[0] == {1, 2, 3, 4} and 5 in parts[1]


def test_roles_and_turns(recorded: Transcript) -> None:
    planner = chosen_turns(recorded, Selection(roles=("planner",)))
    assert len(planner) == 5 and chosen_turns(recorded, Selection(turn=5)) == {5}
    with pytest.raises(BadInput, match="has turns 1 to"):
        chosen_turns(recorded, Selection(turn=0))


def test_nothing_given_selects_everything() -> None:
    assert not Selection() and Selection(round=0) and Selection(roles=("coder",))


def test_a_choice_belongs_to_the_turn_that_follows(recorded: Transcript) -> None:
    chosen = next(r for r in recorded.records if isinstance(r.event, Chosen))
    assert belongs_to(chosen) == chosen.turn + 1
