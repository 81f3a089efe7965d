"""The comparison of two kernels' results on the device; the same code runs here on the CPU."""

from __future__ import annotations

import math

import pytest
import torch

from astra_chat.tools.check.kinds import most_off
from astra_chat.tools.runners import cuda_compare as module
from astra_chat.tools.runners.cuda_compare import (
    codes_apart,
    columns_apart,
    differs,
    elements,
    outside,
    unequal,
    worst_shares,
)
from astra_chat.tools.task.buffer_layout import buffer_bytes, gathered
from astra_chat.tools.task.folder import Arg, Tolerance, find_task
from astra_chat.tools.types import Case

TOLERANCE = Tolerance(rtol=0.01, atol=0.001)
INF, NAN = math.inf, math.nan


def share(got: float, beside: float, dtype: torch.dtype = torch.float32) -> float:
    pair = (torch.tensor([[[value]]], dtype=dtype) for value in (got, beside))
    return float(worst_shares(*pair, TOLERANCE)[0])


def test_a_difference_is_a_share_of_twice_the_tolerance() -> None:
    assert share(1.011, 1.0) == pytest.approx(0.5, rel=1e-3)
    assert share(-1.044, -1.0) == pytest.approx(2.0, rel=1e-3)
    assert share(0.0, 0.002) == pytest.approx(0.002 / 0.00204, rel=1e-3)
    assert share(3.5, 3.5, torch.bfloat16) == share(0.0, -0.0) == 0


@pytest.mark.parametrize("pair", [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (1.0, INF), (INF, -INF)])
def test_nan_and_infinity_in_one_result_only_are_for_the_oracle(pair: tuple[float, float]) -> None:
    assert share(*pair) == share(*pair, torch.float16) == INF


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_nan_and_infinity_in_both_are_equal(value: float) -> None:
    assert share(value, value) == share(value, value, torch.bfloat16) == 0


def test_integers_are_compared_exactly() -> None:
    big = 2**40
    exact = Tolerance(rtol=0, atol=0)
    one, other = torch.tensor([[[big]]]), torch.tensor([[[big + 1]]])
    assert worst_shares(one, one, exact).tolist() == [0]
    assert worst_shares(one, other, exact).tolist() == [INF]


FP8 = "float8_e4m3fn"


def codes(*bits: int) -> torch.Tensor:
    return torch.tensor([[[*bits]]], dtype=torch.uint8).view(torch.float8_e4m3fn)


@pytest.mark.parametrize(
    ("got", "beside", "apart"),
    [
        (0x31, 0x31, 0),
        (0x32, 0x31, 1),
        (0x33, 0x31, INF),
        (0x80, 0x00, 0),
        (0x81, 0x00, 1),
        (0x81, 0x01, INF),
        (0x7F, 0xFF, 0),
        (0x7E, 0x7F, INF),
        (0xFE, 0x7E, INF),
    ],
)
def test_codes_are_apart_in_steps(got: int, beside: int, apart: float) -> None:
    """Zeros are one, numbers that are none are one, and the largest is far from them."""
    found = float(codes_apart(codes(got), codes(beside), FP8, 1.0)[0])
    assert found == apart


def test_as_many_codes_may_be_a_step_apart_as_the_task_lets() -> None:
    beside = codes(*[0x31] * 1000)
    for off, share in ((0, 0.01), (19, 0.01), (20, 0.01), (103, 0.08), (106, 0.08)):
        got = codes(*[0x32] * off, *[0x31] * (1000 - off))
        found = float(codes_apart(got, beside, FP8, share)[0])
        assert found == pytest.approx(off / most_off(share, 1000))
        assert (found > 1) == (off in (20, 106))


@pytest.mark.parametrize("piece", [2**24, 8, 1])
def test_codes_of_every_set_count(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    beside = torch.full((5, 2, 4), 0x31, dtype=torch.uint8)
    got = beside[[4, 3, 2]].clone()
    got[1, 1, 3], got[2, 0, 0] = 0x32, 0x40
    sets = (got.view(torch.float8_e4m3fn), beside.view(torch.float8_e4m3fn))
    assert codes_apart(*sets, FP8, 0.5, [4, 3, 2]).tolist() == pytest.approx(
        [0, 1 / most_off(0.5, 8), INF]
    )


@pytest.mark.parametrize("piece", [2**24, 70, 16, 5, 1])
def test_every_element_of_every_set_counts_whatever_the_pieces(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    beside = torch.ones(4, 5, 7)
    for number in range(3 * 5 * 7):
        got = beside[:3].clone()
        got.view(-1)[number] = 2.0
        found = worst_shares(got, beside, TOLERANCE, which=[3, 0, 2])
        assert [bool(one > 1) for one in found] == [number // 35 == i for i in range(3)]


def test_results_are_held_against_the_set_of_the_same_number() -> None:
    beside = torch.arange(4.0).view(4, 1, 1)
    assert not worst_shares(beside[[2, 0]], beside, TOLERANCE, which=[2, 0]).any()
    assert (worst_shares(beside[[2, 0]], beside, TOLERANCE, which=[0, 2]) > 1).all()


def test_padding_and_what_follows_are_no_elements() -> None:
    task = find_task("fused_add_rmsnorm")
    case = Case(dims={"tokens": 3, "h": 8}, dtype="float16", pads={"input": 4})
    arg = task.args[0]
    assert arg.name == "input" and arg.written
    buffers = torch.zeros(2, 256, dtype=torch.uint8)
    inside = elements(arg, case, buffers)
    assert inside.shape == (2, 3, 8) and inside.dtype == torch.float16
    inside.fill_(1.0)
    assert int((buffers != 0).sum()) == 2 * 3 * 8
    assert not any(part.any() for part in outside(arg, case, buffers))
    for place in range(256):
        before, changed = buffers.clone(), buffers.clone()
        changed[1, place] ^= 1
        pairs = zip(outside(arg, case, before), outside(arg, case, changed), strict=True)
        seen = any(bool(differs(*pair)) for pair in pairs)
        row, at = divmod(place, 24)
        assert seen == (row >= 3 or at >= 16), place


def test_all_of_an_argument_that_may_only_be_read_counts() -> None:
    task = find_task("silu_and_mul")
    case = Case(dims={"tokens": 2, "d": 8}, dtype="float16")
    (arg,) = (arg for arg in task.args if not arg.written)
    before = torch.zeros(3, 1024, dtype=torch.uint8)
    for place in (0, 63, 1023):
        changed = before.clone()
        changed[2, place] = 1
        pairs = zip(outside(arg, case, before), outside(arg, case, changed), strict=True)
        assert any(bool(differs(*pair)) for pair in pairs)


def test_heads_that_lie_apart_are_elements_and_the_rest_is_not() -> None:
    arg = Arg(
        name="q",
        dtype="T",
        shape=("n", "h", "d"),
        access="readwrite",
        strides=("free", "free", "1"),
    )
    case = Case(dims={"n": 2, "h": 3, "d": 5}, dtype="float8_e4m3fn", pads={"q": (4, 1)})
    buffers = torch.zeros(2, 61, dtype=torch.uint8)
    inside = elements(arg, case, buffers)
    assert inside.shape == (2, 6, 5) and inside.dtype == torch.float8_e4m3fn
    content = torch.arange(1, 62, dtype=torch.uint8)
    kept = gathered(arg, case, content[: buffer_bytes(arg, case)].numpy())[0]
    buffers[1] = content
    assert elements(arg, case, buffers)[1].view(torch.uint8).flatten().tolist() == kept.tolist()
    for place in range(61):
        changed = buffers.clone()
        changed[1, place] ^= 1
        pairs = zip(outside(arg, case, buffers), outside(arg, case, changed), strict=True)
        seen = any(bool(differs(*pair)) for pair in pairs)
        assert seen == (place + 1 not in kept.tolist()), place


def test_results_without_a_tolerance_are_for_the_oracle_where_a_byte_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside = torch.arange(4 * 3 * 5, dtype=torch.int32).reshape(4, 3, 5)
    got = beside.clone()
    got[1, 2, 4] += 1
    for piece in (1, 20, 2**20):
        monkeypatch.setattr(module, "PIECE", piece)
        assert unequal(got, beside).tolist() == [0, INF, 0, 0]
        assert unequal(got[[1, 3]], beside, [1, 3]).tolist() == [INF, 0]
        assert unequal(got[[1, 3]], beside, [0, 3]).tolist() == [INF, 0]
    codes = torch.zeros(2, 1, 3).to(torch.float8_e4m3fn)
    minus = codes.view(torch.uint8).clone()
    minus[1, 0, 2] = 0x80
    assert unequal(minus.view(torch.float8_e4m3fn), codes).tolist() == [0, INF]
    assert unequal(got[:, :, :4], beside[:, :, :4]).tolist() == [0, 0, 0, 0]
    assert unequal(got[:, :, ::2], beside[:, :, ::2], [0, 1, 2, 3]).tolist() == [0, INF, 0, 0]
    assert unequal(got[:, :0], beside[:, :0]).tolist() == [0, 0, 0, 0], "an absent argument"


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "bool"])
def test_elements_of_one_byte_that_lie_apart(dtype: str) -> None:
    arg = Arg(
        name="q", dtype="T", shape=("n", "h", "d"), access="write", strides=("free", "free", "1")
    )
    case = Case.model_validate(
        {"dims": {"n": 2, "h": 3, "d": 4}, "dtype": dtype, "pads": {"q": (5, 2)}}
    )
    buffers = torch.ones((5, 256), dtype=torch.uint8)
    found = elements(arg, case, buffers)
    assert found.dtype == getattr(torch, dtype) and found.shape == (5, 6, 4)
    other = buffers.clone()
    other[3, 6 + 1] = 0
    beside = elements(arg, case, other)
    shares = worst_shares(found, beside, TOLERANCE, [0, 1, 2, 3, 4])
    assert [share > 0 for share in shares.tolist()] == [False, False, False, True, False]
    assert unequal(found, beside, [3, 3, 1, 0, 2]).tolist() == [INF, INF, 0, 0, 0]


def test_columns_that_differ_more_often_than_others_are_for_the_oracle() -> None:
    """Every 64th column a step off is; as many steps anywhere are not."""
    beside = torch.randn(2, 64, 130, generator=torch.Generator().manual_seed(1)).bfloat16()
    words = beside.view(torch.int16)
    leaning, spread = words.clone(), words.clone()
    leaning[1, :, 5::64] += 1
    spread[:, 7::20] += 1
    shares = columns_apart(leaning.view(torch.bfloat16), beside)
    assert shares[0] == 0 and shares[1] > 1
    assert (columns_apart(spread.view(torch.bfloat16), beside) < 1).all()
    assert columns_apart(leaning[[1]].view(torch.bfloat16), beside, [1]).tolist() == [shares[1]]
