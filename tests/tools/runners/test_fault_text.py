"""A fault names the argument and its element, and its kind once."""

from __future__ import annotations

import pytest

from astra_chat.tools.runners.fault_text import fault_text, in_order, place_text

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
    message = "race between blocks on global memory: writes 4 bytes"
    assert fault_text("race", message, {}) == message


def test_a_kernel_has_the_name_of_its_source() -> None:
    where = "kernel _Z4siluI6__halfEvPKT_, k.cu:9, block (0, 0, 0), thread (5, 0, 0)"
    assert place_text(where) == where.replace("_Z4siluI6__halfEvPKT_", "silu<__half>")
    assert place_text("kernel silu, PTX line 7") == "kernel silu, PTX line 7"


@pytest.mark.parametrize(
    ("race", "first", "second"),
    [
        ("warp 7 reads 4 bytes that warp 0 wrote since the last barrier", "written", "read"),
        ("a lane of warp 0 writes 4 bytes that another lane of it read", "read", "written"),
        ("writes 4 bytes at x that several blocks added to, and no fence", "added to", "written"),
    ],
)
def test_a_race_has_its_two_places_in_the_order_of_time(race: str, first: str, second: str) -> None:
    earlier, where = "k.cu:9, thread (0, 0, 0) of the same kernel", "kernel k, k.cu:12"
    found = in_order(f"race: {race}; the other access: {earlier}", where)
    assert found == (f"race: {race}; {first} at {earlier}", f"then {second} in {where}")


def test_what_has_no_order_stays() -> None:
    at_once = "two lanes of warp 0 write different values at once; the other access: k.cu:9"
    assert in_order(at_once, "kernel k") == (at_once, "kernel k")
    assert in_order("trap: trap", "kernel k") == ("trap: trap", "kernel k")
