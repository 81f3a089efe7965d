"""Answers of a GPU: kept small, read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.ground.errors import BadInput
from lab.virtual_gpu.numerics.inputs import count, sample
from lab.virtual_gpu.numerics.instructions import instructions
from lab.virtual_gpu.numerics.reference import KEPT, checksum, keep, read


def test_what_is_kept_is_read(tmp_path: Path) -> None:
    exact = next(i for i in instructions() if i.name == "neg.f32")
    near = next(i for i in instructions() if i.name == "ex2.approx.f32")
    answers = {i.name: np.arange(count(i), dtype=np.uint32) for i in (exact, near)}
    keep(tmp_path / "kept.npz.xz", "a GPU", "today", answers, [exact, near])
    held = read(tmp_path / "kept.npz.xz")
    few = answers[exact.name][sample(count(exact))]
    assert (held.device, held.date) == ("a GPU", "today")
    assert held.checksums == {exact.name: checksum(few, "f32")}
    assert np.array_equal(held.answers[near.name], sample(count(near)))
    assert held.whole.keys() == answers.keys()
    other = {**answers, exact.name: answers[exact.name] + np.uint32(1)}
    keep(tmp_path / "other.npz.xz", "a GPU", "today", other, [exact, near])
    whole = read(tmp_path / "other.npz.xz").whole
    assert whole[exact.name] != held.whole[exact.name] and whole[near.name] == held.whole[near.name]


def test_what_is_kept_of_the_h200_is_small_and_whole() -> None:
    held = read()
    assert KEPT.stat().st_size < 70_000
    assert held.whole.keys() == {*held.answers, *held.checksums}
    assert held.whole.keys() == {i.name for i in instructions()}


def test_nothing_kept_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="run numerics --device cuda"):
        read(tmp_path / "none.npz.xz")
