"""Inputs: the same everywhere, all 65,536 halves, special values among them."""

from __future__ import annotations

import zlib

import numpy as np

from lab.virtual_gpu.numerics.inputs import count, inputs, sample
from lab.virtual_gpu.numerics.instructions import instructions

BY_NAME = {i.name: i for i in instructions()}


def test_inputs_do_not_change() -> None:
    """A changed input would make every kept answer wrong."""
    for name, expected in (
        ("fma.rn.f32", ADD),
        ("ex2.approx.f32", EX2),
        ("bfi.b64", BFI),
        (MMA, FRAGMENTS),
    ):
        assert zlib.crc32(b"".join(x.tobytes() for x in inputs(BY_NAME[name]))) == expected, name


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
ADD, EX2, BFI, FRAGMENTS = 0x7A266662, 0x1CE08741, 0x6E166C93, 0x14CAC3C2


def test_unary_halves_get_all_values() -> None:
    (values,) = inputs(BY_NAME["neg.bf16"])
    assert np.array_equal(values, np.arange(1 << 16))


def test_floats_get_a_million_inputs_with_special_ones() -> None:
    a, b = inputs(BY_NAME["add.rn.f32"])
    assert len(a) == len(b) == count(BY_NAME["add.rn.f32"]) == 1 << 20
    pairs = set(zip(a[-2048:].tolist(), b[-2048:].tolist(), strict=True))
    assert {(0x7F800000, 0xFF800000), (0x80000000, 0), (0x7FC00000, 1)} <= pairs


def test_a_sample_is_whole_warps_and_holds_the_last() -> None:
    places = sample(1 << 18)
    assert len(places) % 128 == 0 and len(set(places.tolist())) == len(places)
    assert places[::32].max() == (1 << 18) - 32 and not (places[::32] % 32).any()
