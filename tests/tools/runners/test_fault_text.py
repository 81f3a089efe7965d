"""A fault names the argument and its element, and its kind once."""

from __future__ import annotations

import pytest

from astra_chat.tools.runners.fault_text import fault_text

NEAREST = "read of 2 bytes at address 0x563bf36b8c02; nearest buffer: x of {} bytes, offset {}"


@pytest.mark.parametrize(
    ("length", "offset", "said"),
    [
        (2, 2, "x[1], one past the end of 1 element"),
        (14580, 14736, "x[7368], 79 past the end of 7,290 elements"),
        (8, -4, "x[-2], 2 elements before its start"),
        (8, 6, "x[3], and reaches past the end of 4 elements"),
    ],
)
def test_an_address_is_an_element(length: int, offset: int, said: str) -> None:
    found = fault_text("out_of_bounds", NEAREST.format(length, offset), {"x": 2})
    assert found == f"out_of_bounds: read of 2 bytes at {said}"


def test_an_address_that_is_no_element_stays() -> None:
    for message in (NEAREST.format(8, 9), NEAREST.format(8, 8).replace("x of", "heap of")):
        assert fault_text("out_of_bounds", message, {"x": 2}) == f"out_of_bounds: {message}"


def test_a_kind_is_said_once() -> None:
    message = "shared-memory race: warp 0 reads 4 bytes"
    assert fault_text("race", message, {}) == message
    assert fault_text("race", "two blocks write", {}) == "race: two blocks write"
