"""Samples of cases that GPUs timed, as their runs have them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from statistics import median

import numpy as np
import pytest

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.recordings.samples import Cursor, Streams, counted, packed_again
from astra_chat.tools.timing.raw_samples import unpack
from tests.recorded_files import EXAMPLES, LIVE

RAW = re.compile(rb'"raw": ?"([^"]{40,})"')
SPACED = LIVE / "further/rmsnorm-71ab7f3a9bf6-h200.json"


@pytest.fixture(scope="module")
def packed() -> list[bytes]:
    """Samples of two GPUs, with and without kernels between the launches."""
    files = (EXAMPLES / "h200/merge_state_v2.jsonl", SPACED)
    found = [RAW.findall(read_recorded(path))[:6] for path in files]
    assert len(found[0]) == len(found[1]) == 6
    return [one for some in found for one in some]


def test_every_samples_last_byte_comes_back(packed: list[bytes]) -> None:
    streams = Streams()
    heads = [counted(one, streams) for one in packed]
    cursor = Cursor({name: bytes(part) for name, part in streams.content.items()}, {})
    assert [packed_again(head, cursor) for head in heads if head] == packed
    size = sum(map(len, streams.content.values()))
    assert size < sum(map(len, packed)) / 3, "beside the heads, which are alike"


def test_samples_are_counts_of_ticks(packed: list[bytes]) -> None:
    streams = Streams()
    head = json.loads(counted(packed[0], streams) or b"")
    raw = unpack(packed[0].decode())
    count, middle, _ = head["events"][0]
    assert count == len(raw.baseline_event_us)
    assert median(raw.baseline_event_us) == pytest.approx(0.032 * middle, abs=0.032)


def test_what_would_not_come_back_is_left_as_it_is(packed: list[bytes]) -> None:
    """No such text, another level of zlib, a time that no clock has told."""
    text = zlib.decompress(base64.b64decode(packed[0]))
    raw = json.loads(text)
    raw["baseline_event_us"][3] += 1e-9
    other = json.dumps(raw, separators=(",", ":")).encode()
    streams = Streams()
    for content in (
        b"eJno",
        base64.b64encode(zlib.compress(text, 1)),
        base64.b64encode(zlib.compress(other, 9)),
        base64.b64encode(zlib.compress(b"{}", 9)),
    ):
        assert counted(content, streams) is None
    assert not streams.content


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
