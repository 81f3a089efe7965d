"""Distances between floats, checksums that do not see which NaN it is."""

from __future__ import annotations

import numpy as np

from lab.virtual_gpu.numerics.ulps import LOST, checksums, distance, elements, worst_difference


def test_distances_count_floats() -> None:
    a = np.float32([1, -0.0, 1e-45, np.nan, 1, np.inf]).view(np.uint32)
    b = np.float32([1 + 2.0**-23, 0.0, -1e-45, np.nan, np.nan, 3.4028235e38]).view(np.uint32)
    assert list(distance(a, b, "f32")) == [-1, 0, 2, 0, LOST, 1]


def test_halves_lie_two_in_a_word() -> None:
    words = np.uint32([0x3C013C00])
    assert list(elements(words, "f16")) == [0x3C00, 0x3C01]
    assert list(distance(words, np.uint32([0x3C003C00]), "f16")) == [0, 1]


def test_nans_have_one_checksum() -> None:
    a, b = np.uint32([0x7FC00000, 1]), np.uint32([0xFFC12345, 1])
    assert checksums(a, "f32", 2) == checksums(b, "f32", 2) != checksums(a, "", 2)


def test_differences_leave_infinities_out() -> None:
    a, b = np.float32([1, np.inf]).view(np.uint32), np.float32([1.5, 0]).view(np.uint32)
    assert worst_difference(a, b, "f32") == 0.5
    assert worst_difference(np.uint16([0x3F80]), np.uint16([0x4000]), "bf16") == 1
