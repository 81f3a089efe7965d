"""The position that ends a prompt is read back from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astra_chat.agents.position import position_line, read_position
from astra_chat.agents.turns import Position


@given(st.integers(0, 999), st.integers(0, 99))
def test_a_position_is_read_back(number: int, attempt: int) -> None:
    place = Position(round=number, attempt=attempt)
    assert (
        read_position(
            f"words\n{position_line(Position(round=1, attempt=1))}\n{position_line(place)}"
        )
        == place
    )


def test_a_prompt_without_a_position() -> None:
    assert read_position("In round 2, attempt 1 was better.") is None
