"""Files that can be read are found, however high their numbers."""

from __future__ import annotations

import os
import select

import pytest

from astra_chat.tools.sandbox.ready import ready
from tests.many_files import BEYOND_SELECT, many_open


def test_files_beyond_what_select_takes() -> None:
    with many_open():
        (silent, _), (written, end), (closed, at_end) = pipes = [os.pipe() for _ in range(3)]
        try:
            assert min(map(min, pipes)) >= BEYOND_SELECT
            with pytest.raises(ValueError, match="out of range"):
                select.select([silent], [], [], 0)
            assert ready([silent, written], 0) == set() == ready([silent], 0.001)
            os.write(end, b"x")
            assert ready([silent, written]) == {written}
            os.close(at_end)
            assert ready([silent, written, closed]) == {written, closed}, "an end can be read"
        finally:
            for file in {file for pair in pipes for file in pair} - {at_end}:
                os.close(file)
