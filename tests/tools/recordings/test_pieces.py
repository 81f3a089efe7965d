from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astra_chat.tools.recordings import pieces
from astra_chat.tools.recordings.pieces import Cutter, Pieces

TEXTS = (
    b"",
    b"no number",
    b'{"a": 1, "b": [1.5, -2e-05, 0.1], "sha": "' + b"0f" * 32 + b'"}\n',
    b'{"a": 2, "b": [11.552000418305397, 1.0000000000000000000001, 1e999], "sha": "'
    + b"a" * 64
    + b'"}\n',
    b'["d", "h", "1", "\xc3\xa9", 007, -0.0, 1E5, 12345678901234567890]',
)


def read_again(texts: tuple[bytes, ...]) -> list[bytes]:
    cutter = Cutter()
    places = [cutter.add(text) for text in texts]
    found = Pieces(cutter.streams())
    return [found.text(*place) for place in places]


def test_texts_come_back() -> None:
    assert read_again(TEXTS) == list(TEXTS)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.text(alphabet='0123456789.e-+[]{},: "dh\\aé\n'), max_size=4))
def test_any_text_comes_back(texts: list[str]) -> None:
    encoded = tuple(text.encode() for text in texts)
    assert read_again(encoded) == list(encoded)


def test_what_repeats_is_stored_once_and_numbers_by_what_stands_before_them() -> None:
    cutter = Cutter()
    for n in range(3):
        cutter.add(b'{"rows": %d, "us": %d}' % (n, 10 + n))
    streams = cutter.streams()
    assert streams["pieces"].split(b"\0") == [b'{"rows": ', b', "us": ', b"}"]
    assert streams["numbers"].split() == [b"0", b"1", b"2", b"10", b"11", b"12"]


def test_pieces_that_are_not_there_are_an_error() -> None:
    cutter = Cutter()
    first, count = cutter.add(TEXTS[2])
    streams = cutter.streams()
    for place in ((first, count + 1), (first - 1, count), (first, -1)):
        with pytest.raises(ValueError, match="missing"):
            Pieces(streams).text(*place)
    with pytest.raises(ValueError, match="missing"):
        Pieces({**streams, "numbers": b"1\n"})


def test_a_piece_that_repeats_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    cutter = Cutter()
    place = cutter.add(b"[1, " + b"1" * 10 + b"]" + b'["a very long text", 1]' * 100)
    monkeypatch.setattr(pieces, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        Pieces(cutter.streams()).text(*place)


def test_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="null byte"):
        Cutter().add(b"a\0b")
