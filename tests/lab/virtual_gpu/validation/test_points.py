from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.ground.errors import BadInput
from lab.virtual_gpu.validation.points import HERE, input_of, read_points, words

CALIBRATED = HERE.parent / "calibration"


def test_the_set_is_large_and_has_variants_and_shapes_of_every_task() -> None:
    points = read_points()
    variants: dict[str, set[str]] = {}
    shapes: dict[str, set[int]] = {}
    for point in points:
        variants.setdefault(point.task, set()).add(point.variant)
        shapes.setdefault(point.task, set()).add(point.in_bytes + point.out_bytes)
    assert len(variants) >= 20 and len({p.variant for p in points}) >= 75
    assert all(len(each) >= 3 for each in variants.values())
    assert all(len(each) == 3 and min(each) < 2 * 2**20 for each in shapes.values())
    assert sum(max(each) > 64 * 2**20 for each in shapes.values()) >= 0.8 * len(shapes)
    assert max(Counter(p.key for p in points).values()) == 1
    assert all(f"LAUNCHER({p.variant})" in p.source.read_text() for p in points)


@pytest.mark.parametrize("name", ["mechanisms", "general", "varied", "mixed", "served"])
def test_no_kernel_is_calibrated_on_and_validated_by(name: str) -> None:
    calibrated = {p.variant for p in read_points(CALIBRATED / name)}
    assert calibrated and not calibrated & {p.variant for p in read_points()}


def test_sizes_are_numbers_for_each_element_or_formulas() -> None:
    plain = next(p for p in read_points(CALIBRATED / "varied") if p.variant == "pool_by_pairs")
    assert (plain.in_bytes, plain.out_bytes) == (16 * 256 * 256, 4 * 256 * 256)
    ragged = next(p for p in read_points(CALIBRATED / "mixed") if p.variant == "ragged_sum_warp")
    assert (ragged.in_bytes, ragged.out_bytes) == (4 * 1024 + 4 * 1024 * 64, 4 * 1024)
    assert (ragged.ids, ragged.below) == (1024, 64)


def test_words_are_pairs_of_halves_from_0_to_2() -> None:
    found = words(1 << 16).view(np.float16).astype(np.float32)
    assert found.min() >= 0 and found.max() < 2 and found.std() > 0.1
    assert words(3).tolist() == words(1 << 10)[:3].tolist()


def test_an_input_starts_with_its_ids() -> None:
    point = next(p for p in read_points(CALIBRATED / "mixed") if p.variant == "ragged_sum_warp")
    found = input_of(point)
    assert found.nbytes == point.in_bytes
    assert found[:1024].max() < 64 and len(set(found[:1024].tolist())) == 64
    assert found[1024:].tolist() == words(found.size)[1024:].tolist()


def test_a_folder_without_a_set_is_bad_input(tmp_path: Path) -> None:
    listed = 'name = "t"\nsource = "s"\nvariants = ["v"]\nshapes = [[1, 2]]\n'
    for task in ("name = 3", f'{listed}in = "4*c"\nout = 1'):
        (tmp_path / "set.toml").write_text(f"[[task]]\n{task}")
        with pytest.raises(BadInput, match="contains no set of kernels"):
            read_points(tmp_path)
