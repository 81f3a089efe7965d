from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.recordings.columns import Cursor, Streams

COLUMNS = (
    [],
    [0],
    [7, 7, 7],
    [-1, 0, 1],
    [402, 434, 397, 3_791_249, -5],
    [2**40, -(2**40), 0],
)


def test_columns_come_back_in_the_order_in_which_they_were_put() -> None:
    streams = Streams()
    put = [streams.put("a", np.array(column, np.int64)) for column in COLUMNS]
    cursor = Cursor({name: bytes(content) for name, content in streams.content.items()}, {})
    assert [cursor.take("a", column).tolist() for column in put] == list(map(list, COLUMNS))


def test_a_member_begins_where_the_one_before_it_ends() -> None:
    streams = Streams()
    streams.put("a", np.array([1, 2, 300]))
    starts = streams.ends()
    column = streams.put("a", np.array([4, 5, 600]))
    content = {name: bytes(part) for name, part in streams.content.items()}
    assert Cursor(content, starts).take("a", column).tolist() == [4, 5, 600]


@pytest.mark.parametrize("column", [[9, 0, 1], [1, 0, 99], [-1, 0, 1], [10**12, 0, 0]])
def test_what_is_not_there_is_an_error(column: list[int]) -> None:
    with pytest.raises(ValueError, match=r"too short|streams of a column|values in a column"):
        Cursor({"a.0": b"\1\2"}, {}).take("a", column)
