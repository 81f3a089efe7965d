"""Blocks of a far call that leave out what is theirs, from where blocks stored to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from astra_chat.tools.check.far_blocks import MORE_BLOCKS, silent_blocks
from astra_chat.tools.run.protocol import StoredBlocks

ROWS, ROW = 4096, 1000
Span = tuple[int, int] | None
Where = Callable[[int, int], Span]
"""The first byte and the end of what a block writes, by its place on two axes."""


def stored(
    where: Where, grid: tuple[int, int] = (ROWS, 1), argument: str = "out", dense: bool = True
) -> list[StoredBlocks]:
    """What one launch stored, of every 63rd block and the last."""
    x, y = grid
    rows = []
    for block in sorted({*range(0, x * y, 63), x * y - 1}):
        first, end = where(block % x, block // x) or (-1, -1)
        rows.append((block, first, end))
    grid3, blocks = (x, y, 1), tuple(rows)
    return [StoredBlocks(argument=argument, kernel="k", grid=grid3, blocks=blocks, dense=dense)]


def row(x: int, _: int) -> Span:
    return x * ROW, (x + 1) * ROW


def upwards(x: int, _: int) -> Span:
    return row(ROWS - 1 - x, 0)


def four_rows(x: int, _: int) -> Span:
    return 4 * x * ROW, min(4 * (x + 1), ROWS - 1) * ROW


BASELINE = stored(row)


@pytest.mark.parametrize(
    ("where", "grid", "first"),
    [
        (lambda x, y: row(x, y) if x < 3000 else None, (ROWS, 1), (3024, 0, 0)),
        (lambda x, y: row(x, y) if x + 1 < ROWS else None, (ROWS, 1), (ROWS - 1, 0, 0)),
        (
            lambda x, y: row(x, y) if x <= 63 * (MORE_BLOCKS + 1) else None,
            (ROWS, 1),
            (63 * (MORE_BLOCKS + 2), 0, 0),
        ),
        (lambda x, y: upwards(x, y) if x > 900 else None, (ROWS, 1), (0, 0, 0)),
        # Too few for a rule of their own, but in the baseline's places.
        (lambda x, y: row(x, y) if x < 63 * 2 else None, (ROWS, 1), (63 * 2, 0, 0)),
        # Four rows a block: the last block leaves out one of its rows, or there are tiles of rows.
        (
            lambda x, _: (4 * x * ROW, (4 * x + 4 - (4 * x + 4 == ROWS)) * ROW),
            (ROWS // 4, 1),
            (ROWS // 4 - 1, 0, 0),
        ),
        (
            lambda x, y: (y * ROW + x * 250, y * ROW + x * 250 + 250) if y < 4000 else None,
            (4, ROWS),
            (2, 4000, 0),
        ),
    ],
)
def test_a_block_that_leaves_out_its_place_is_found(
    where: Where, grid: tuple[int, int], first: tuple[int, int, int]
) -> None:
    found = silent_blocks(stored(where, grid), BASELINE)
    assert found is not None and found.first == first and found.argument == "out"
    assert 0 <= found.place < ROWS * ROW


@pytest.mark.parametrize(
    ("where", "grid"),
    [
        (row, (ROWS, 1)),
        (upwards, (ROWS, 1)),
        # More blocks than rows, at the end, at each row's end, or between those that write.
        (lambda x, y: row(x, y) if x < ROWS else None, (ROWS + 300, 1)),
        (
            lambda x, y: (y * ROW + x * 250, y * ROW + x * 250 + 250) if x < 4 else None,
            (6, ROWS),
        ),
        (lambda x, y: row(x // 8, y) if x % 8 == 0 else None, (8 * ROWS, 1)),
        # The last tile of a row is shorter; rows in turns; places that follow no rule.
        (lambda x, y: (y * ROW + x * 300, y * ROW + min(x * 300 + 300, ROW)), (4, ROWS)),
        (lambda x, y: (x * ROW, (x + 1 + (ROWS - 1 - x) // 900 * 900) * ROW), (900, 1)),
        (lambda x, y: row(x * 1367 % ROWS, y) if x < 4000 else None, (ROWS, 1)),
        # Too few blocks that wrote anything.
        (lambda x, y: row(x, y) if x < 63 else None, (ROWS, 1)),
    ],
)
def test_honest_grids_are_left_alone(where: Where, grid: tuple[int, int]) -> None:
    assert silent_blocks(stored(where, grid), BASELINE) is None


def test_what_another_launch_writes_is_not_missing() -> None:
    most = stored(lambda x, y: row(x, y) if x < 3000 else None)
    rest = stored(lambda x, y: row(x + 3000, y), (ROWS - 3000, 1))
    assert silent_blocks(most, BASELINE) is not None
    assert silent_blocks([*most, *rest], BASELINE) is None


def test_only_what_the_baseline_writes_has_to_be_written() -> None:
    some = stored(lambda x, y: row(x, y) if x < 3000 else None)
    assert silent_blocks(some, some) is None
    assert silent_blocks(some, stored(row, argument="other")) is None
    assert silent_blocks(some, stored(four_rows, (ROWS // 4, 1))) is not None
    # Blocks of the baseline that write another argument lie behind those that write this one.
    both = stored(lambda x, y: row(x, y) if x < ROWS else None, (2 * ROWS, 1))
    assert silent_blocks(some, both) is not None
    # Of blocks with gaps in what they write, nobody knows whether they write there.
    assert silent_blocks(some, stored(four_rows, (ROWS // 4, 1), dense=False)) is None
    # Rows that lie apart: nobody writes between them.
    apart = stored(lambda x, _: (2 * x * ROW, (2 * x + 1) * ROW))
    beside = stored(lambda x, y: (x * ROW, x * ROW + ROW) if y == 0 else None, (ROWS, 2))
    assert silent_blocks(beside, apart) is None


def test_what_stays_as_it_was_need_not_be_written() -> None:
    """Rotated in part and in place: 32 bytes of each row of 1,000, four rows a block. The last
    block has one row, and what follows its 32 bytes follows those of every other row, too."""

    def first_bytes(x: int, _: int) -> Span:
        return 4 * x * ROW, (4 * x + 3 * (x < 4 * ROWS // 16)) * ROW + 32

    some = stored(first_bytes, (ROWS // 4 + 1, 1), dense=False)
    baseline = stored(row, (ROWS + 1, 1))
    assert silent_blocks(some, baseline, {"out"}) is None
    assert silent_blocks(some, baseline) is not None  # an output, of which all is to be written
    # Whole blocks that write nothing are found in place, too.
    half = stored(lambda x, y: first_bytes(x, y) if x < 700 else None, (ROWS // 4, 1), dense=False)
    assert silent_blocks(half, baseline, {"out"}) is not None
