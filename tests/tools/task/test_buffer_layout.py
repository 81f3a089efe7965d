"""Buffers with padded rows: elements in, poison between, elements out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from astra_chat.tools.task.buffer_layout import (
    buffer_bytes,
    changed_between,
    gaps,
    gathered,
    poisoned,
    spread,
    used_bytes,
)
from astra_chat.tools.task.contract import Index
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


HEADS = Arg(
    name="q", dtype="T", shape=("n", "2", "d"), access="read", strides=("free", "free", "1")
)


@pytest.mark.parametrize("pads", [(0, 0), (5, 0), (0, 3), (5, 3)])
@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "int64"])
def test_two_free_strides(pads: tuple[int, int], dtype: str) -> None:
    one = Case.model_validate({"dims": {"n": 3, "d": 5}, "dtype": dtype, "pads": {"q": pads}})
    item = HEADS.bytes_of(one) // 30
    content = np.arange(30 * item, dtype=np.uint8)
    buffer = spread(HEADS, one, content, PATTERN)
    head = 5 + pads[1]
    token = 2 * head + pads[0]
    assert HEADS.strides_of(one) == (token, head, 1)
    assert len(buffer) == buffer_bytes(HEADS, one) == 3 * token * item
    assert used_bytes(HEADS, one) == (2 * token + head + 5) * item
    elements, between = gathered(HEADS, one, buffer)
    assert elements.tolist() == content.tolist()
    assert len(between) == len(buffer) - len(content)
    assert not changed_between(HEADS, one, buffer, PATTERN).any()
    at = (token + 5) * item
    if pads[1]:
        buffer[at] ^= 1
        assert changed_between(HEADS, one, buffer, PATTERN).sum() == 1


def test_an_index_has_legal_numbers_between_its_rows() -> None:
    """A kernel may read there, and use what it reads before it finds that it is not wanted."""
    index = Index.model_validate({"from": 3, "below": 9})
    arg = Arg(
        name="i", dtype="int32", shape=("n", "d"), access="read", strides=("free", "1"), index=index
    )
    one = Case(dims={"n": 2, "d": 2}, dtype="float16", pad=1)
    buffer = spread(arg, one, np.full(4, 5, np.int32).view(np.uint8), PATTERN)
    assert buffer.view(np.int32).tolist() == [5, 5, 3, 5, 5, 3]


def test_an_absent_argument_has_no_bytes() -> None:
    one = Case(dims={"n": 2, "d": 2}, dtype="float16", absent=("x",))
    assert buffer_bytes(ARG, one) == used_bytes(ARG, one) == 0
    assert len(spread(ARG, one, np.zeros(0, np.uint8), PATTERN)) == 0


@pytest.mark.parametrize(
    ("strides", "pads"),
    [
        (("free", "free", "1"), (5, 3)),
        (("free", "free", "1"), (0, 2)),
        (None, ()),
        (("free", "free", "free"), (1, 2, 3)),
        (("1", "3", "6"), ()),
        (("20", "1", "2"), ()),
    ],
)
def test_gaps_are_all_that_is_no_element(
    strides: tuple[str, ...] | None, pads: tuple[int, ...]
) -> None:
    arg = HEADS.model_copy(update={"strides": strides})
    case_ = Case(dims={"n": 3, "d": 5}, dtype="float16", pads={"q": pads} if pads else {})
    seen = np.zeros(buffer_bytes(arg, case_), np.uint8)
    for gap in gaps(arg, case_):
        as_strided(seen[gap.offset :], (*gap.extents, gap.width), (*gap.strides, 1))[...] += 1
    elements, between = gathered(arg, case_, seen)
    assert not elements.any() and (between == 1).all()


@pytest.mark.parametrize(("pads", "strides"), [((0, 0), (24, 12, 1)), ((1, 3), (36, 16, 1))])
def test_free_strides_are_rounded_up_to_their_alignment(
    pads: tuple[int, int], strides: tuple[int, ...]
) -> None:
    aligned = HEADS.model_copy(update={"stride_alignment_bytes": 8})
    case = Case(dims={"n": 3, "d": 10}, dtype="float16", pads={"q": pads})
    assert aligned.strides_of(case) == strides
    odd = HEADS.model_copy(update={"stride_alignment_bytes": 6})
    assert all(stride % 3 == 0 for stride in odd.strides_of(case)[:2])
