"""Buffers with padded rows: elements in, poison between, elements out."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.task.buffer_layout import buffer_bytes, gathered, poisoned, spread
from astra_chat.tools.task.folder import Arg
from astra_chat.tools.types import Case

ARG = Arg(name="x", dtype="T", shape=("n", "2*d"), access="readwrite", strided=True)
PATTERN = 0x7FA5


def case(pad: int) -> Case:
    return Case(dims={"n": 3, "d": 2}, dtype="float16", pad=pad)


@pytest.mark.parametrize("pad", [0, 1, 8])
def test_elements_survive_and_padding_is_poison(pad: int) -> None:
    content = np.arange(24, dtype=np.uint8)
    buffer = spread(ARG, case(pad), content, PATTERN)
    assert len(buffer) == buffer_bytes(ARG, case(pad)) == 3 * (4 + pad) * 2
    assert ARG.stride_of(case(pad)) == 4 + pad
    elements, between = gathered(ARG, case(pad), buffer)
    assert elements.tolist() == content.tolist()
    assert (between.view(np.uint16) == PATTERN).all() and len(between) == 3 * pad * 2


def test_contiguous_arguments_ignore_the_padding() -> None:
    plain = ARG.model_copy(update={"strides": None})
    assert buffer_bytes(plain, case(8)) == 24


def test_an_odd_number_of_bytes_can_be_poisoned() -> None:
    assert len(poisoned(7, PATTERN)) == 7
