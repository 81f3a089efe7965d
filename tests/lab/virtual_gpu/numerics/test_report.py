"""Both engines against what an H200 answered: approximations stay as close as docs say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_vgpu.ground.errors import BadInput
from astra_vgpu.types import Engine
from lab.virtual_gpu.numerics import report
from lab.virtual_gpu.numerics.inputs import count, sample
from lab.virtual_gpu.numerics.instructions import instructions
from lab.virtual_gpu.numerics.report import (
    KEPT,
    Row,
    against_kept,
    checksum,
    compare,
    keep,
    read,
    table,
)

STATED_ULPS = {
    "ex2.approx": 2,
    "rcp.approx.f32": 1,
    "rcp.approx.ftz.f32": 1,
    "rsqrt.approx.f32": 1,
    "rsqrt.approx.f64": 1,
    "rsqrt.approx.ftz.f32": 1,
    "sqrt": 1,
    "tanh.approx.f32": 257,
    "tanh.approx.f16": 1,
    "tanh.approx.bf16": 1,
    "div": 2,
    "rcp.approx.ftz.f64": 2**32,
    "rsqrt.approx.ftz.f64": 2**32,
}
"""docs/research/virtual-gpu.md; doubles of which only the high word counts: one of its units."""
STATED_DIFFERENCE = {"sin": 3.5e-7, "cos": 3.5e-7, "lg2": 1.6e-5}


@pytest.mark.second_tier
@pytest.mark.parametrize(("engine", "every"), [("numpy", 1), ("c", 3)])
def test_an_engine_answers_as_an_h200_does(engine: Engine, every: int) -> None:
    """Approximate instructions, sums of mma.sync and a sixteenth of the other exact ones; a third
    of these on C, for which each is compiled."""
    exact = [i for i in instructions() if not i.approximate]
    sums = [i for i in exact if i.name.startswith("mma") and i.result in ("f16", "f32")]
    others = [i for i in exact if i not in sums]
    approximate = [i for i in instructions() if i.approximate]
    chosen = [*approximate[::every], *sums[::every], *others[every :: 16 * every]]
    rows, about = against_kept(chosen, engine)
    assert about.startswith("NVIDIA H200, 2026-11-21")
    assert len(sums) == 8 and len(rows) == len(chosen)
    for row in rows:
        ulps = next((n for name, n in STATED_ULPS.items() if row.name.startswith(name)), None)
        difference = STATED_DIFFERENCE.get(row.name[:3])
        if not row.bound:
            assert row.equal == row.elements, row
        elif difference:
            assert row.worst_ulps >= 0 and row.worst_difference <= difference, row
        else:
            assert ulps is not None and 0 <= row.worst_ulps <= ulps, row


@pytest.mark.second_tier
@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_all_answers_have_the_checksum_of_an_h200(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("neg.f16", "cvt.rna.tf32.f32", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32")
    chosen = [i for i in instructions() if i.name in names]
    rows, about = report.against_checksums(chosen, engine)
    assert "all inputs" in about and [r.equal for r in rows] == [r.elements for r in rows]
    assert sorted(r.elements for r in rows) == [1 << 16, 1 << 20, 1 << 20]
    real = report.answers
    monkeypatch.setattr(
        report,
        "answers",
        lambda part, engine: {n: a ^ 1 for n, a in real(part, engine=engine).items()},
    )
    assert report.against_checksums(chosen[:1], engine)[0][0].equal == 0


def test_a_row_counts_what_differs() -> None:
    ex2 = next(i for i in instructions() if i.name == "ex2.approx.f32")
    ours = np.float32([1, 2, np.nan, 4]).view(np.uint32)
    theirs = ours + np.uint32([0, 3, 1, 0])
    row = compare(ex2, ours, theirs)
    assert (row.elements, row.equal, row.worst_ulps, row.ulps_99) == (4, 3, 3, 3)
    assert row.worst_difference == 3 * 2.0**-22 and row.share == 0.75
    lost = compare(ex2, ours, np.float32([np.nan, 2, np.nan, 4]).view(np.uint32))
    assert lost.worst_ulps == -1


def test_the_table_names_exact_ones_that_differ() -> None:
    text = table([Row("add.f32", 10, 9, worst_ulps=1), Row("mul.f32", 10, 10)])
    assert "2 exact instructions, 20 results: 1 differ" in text
    assert "add.f32" in text and "mul.f32" not in text


def test_an_unknown_instruction_is_bad_input() -> None:
    with pytest.raises(BadInput, match="no instruction begins with 'frobnicate'"):
        report.numerics("virtual", "numpy", "frobnicate", None)


@pytest.mark.second_tier
def test_details_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of the GPU, with the other engine in its place."""
    real = report.answers
    monkeypatch.setattr(
        report,
        "answers",
        lambda chosen, device="virtual", engine="numpy": real(chosen, engine=engine, sampled=False),
    )
    assert report.numerics("cuda", "numpy", "tanh.approx.f16", tmp_path) == 0
    assert {p.name for p in tmp_path.iterdir()} == {
        "h200.npz.xz",
        "table.json",
        "exact.npz",
        "approximate.npz",
    }
    with np.load(tmp_path / "approximate.npz") as held:
        assert not held["tanh.approx.f16"].any()


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
