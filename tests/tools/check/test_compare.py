"""The comparison with the oracle, on results written by hand: what passes and what is caught."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.floats import as_float
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.requests import nan_pattern
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, DTypeName, Wrong
from tests.contracts.planted import contract

TASK = find_task("silu_and_mul")
PATTERN = 0x7FA5
GUARD = 64
DIMS = {"tokens": 3, "d": 8}


class Scene:
    """A case's files: the expected result, and what a kernel left behind (right, until changed)."""

    def __init__(self, folder: Path, dtype: DTypeName = "float32") -> None:
        self.case = Case(dims=DIMS, dtype=dtype)
        self.folder = folder
        self.expected = np.linspace(-3, 3, 24)
        self.input = np.arange(48, dtype=np.float32).astype(self.storage)
        self.input_after = self.input.copy()
        self.out = self.expected.astype(self.storage)
        self.guard = np.full(GUARD // 2, PATTERN, dtype=np.uint16).view(np.uint8)
        self.sampled_share, self.spread_blocks = 1 / 3, 0

    @property
    def storage(self) -> type:
        return {"float32": np.float32, "float16": np.float16}[self.case.dtype]

    def judge(self) -> float | Wrong:
        self.expected.tofile(self.folder / "out.expected")
        self.input.tofile(self.folder / "input.in")
        for name, content in (("out", self.out), ("input", self.input_after)):
            guarded = np.concatenate([self.guard, content.view(np.uint8), self.guard])
            guarded.tofile(self.folder / f"{name}.after")
        oracle_case = OracleCase(self.case, self.folder, self.folder)
        report = CaseReport(
            guard_bytes=GUARD, sampled_share=self.sampled_share, spread_blocks=self.spread_blocks
        )
        return compare(TASK, CaseRun(oracle_case, self.folder, report, PATTERN))

    def wrong(self) -> Wrong:
        verdict = self.judge()
        assert isinstance(verdict, Wrong)
        return verdict


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_right_result_passes(scene: Scene) -> None:
    worst = scene.judge()
    assert isinstance(worst, float) and worst < 0.02


def test_one_wrong_element_is_named(scene: Scene) -> None:
    scene.out[13] += 0.01
    wrong = scene.wrong()
    assert (wrong.reason, wrong.argument, wrong.index) == ("value", "out", (1, 5))
    assert (wrong.bad, wrong.total) == (1, 24)


def test_nan_is_never_close(scene: Scene) -> None:
    scene.out[:] = np.nan
    assert scene.wrong().reason == "nan_pattern"


def test_a_missing_nan_is_wrong(scene: Scene) -> None:
    scene.expected[4] = np.nan
    assert scene.wrong().index == (0, 4)


def test_an_expected_nan_passes(scene: Scene) -> None:
    scene.expected[4] = np.nan
    scene.out[4] = np.nan
    assert isinstance(scene.judge(), float)


def test_infinity_must_have_its_sign(scene: Scene) -> None:
    scene.expected[2] = np.inf
    scene.out[2] = np.inf
    assert isinstance(scene.judge(), float)
    scene.out[2] = -np.inf
    assert scene.wrong().reason == "nan_pattern"


def test_overflow_rounds_to_infinity_and_saturation_is_wrong(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "float16")
    scene.expected[0] = 1e6
    scene.out[0] = np.inf
    assert isinstance(scene.judge(), float)
    scene.out[0] = np.float16(65504)
    assert scene.wrong().index == (0, 0)


def test_the_edge_of_overflow_may_fall_either_way(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "float16")
    scene.expected[0] = 65519.0
    for value in (np.float16(65504), np.float16(np.inf)):
        scene.out[0] = value
        assert isinstance(scene.judge(), float)


def test_poison_left_behind_is_unwritten(scene: Scene) -> None:
    scene.out[16:] = np.full(16, PATTERN, dtype=np.uint16).view(np.float32)
    wrong = scene.wrong()
    assert (wrong.reason, wrong.index, wrong.bad) == ("unwritten", (2, 0), 8)


def test_a_changed_input_is_caught(scene: Scene) -> None:
    scene.input_after[20] = -1.0
    wrong = scene.wrong()
    assert (wrong.reason, wrong.argument, wrong.index) == ("input_changed", "input", (1, 4))
    assert (wrong.expected, wrong.got) == (20.0, -1.0)


def test_a_write_outside_is_caught(scene: Scene) -> None:
    scene.guard = scene.guard.copy()
    scene.guard[-1] = 0
    assert scene.wrong().reason == "write_outside"


def test_all_zeros_and_constants_fail(scene: Scene) -> None:
    scene.out[:] = 0
    assert scene.wrong().reason == "value"


def test_only_what_a_sample_wrote_is_compared(scene: Scene) -> None:
    scene.out[8:] = 0
    written = np.zeros(24 * 4, dtype=np.bool_)
    written[: 8 * 4] = True
    written.tofile(scene.folder / "out.written")
    assert isinstance(scene.judge(), float)
    scene.out[3] = 9
    assert scene.wrong().index == (0, 3)


@pytest.mark.parametrize(("elements", "right"), [(6, True), (4, True), (3, False), (0, False)])
def test_a_sample_writes_about_its_share(scene: Scene, elements: int, right: bool) -> None:
    """A third of the blocks, so a third of 24 elements, or half of that at least."""
    written = np.zeros(24 * 4, dtype=np.bool_)
    written[: elements * 4] = True
    written.tofile(scene.folder / "out.written")
    verdict = scene.judge()
    if right:
        assert isinstance(verdict, float)
    else:
        assert isinstance(verdict, Wrong) and verdict.reason == "unwritten"
        assert verdict.bad == 24 - elements and "share" in verdict.note


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_every_pattern_is_a_nan_in_every_dtype(dtype: DTypeName) -> None:
    for _ in range(200):
        words = np.full(2, nan_pattern(random.Random(1)), dtype=np.uint16).view(np.uint8)
        assert np.isnan(as_float(words, dtype)).all()


def test_bfloat16_is_widened_exactly() -> None:
    words = np.array([0x3F80, 0xC040, 0x7F80, 0x0001], dtype=np.uint16).view(np.uint8)
    assert as_float(words, "bfloat16").tolist() == [1.0, -3.0, np.inf, 2.0**-133]


@pytest.mark.parametrize("piece", [5, 8, 24, 1000])
def test_where_the_pieces_end_makes_no_difference(
    scene: Scene, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astra_chat.tools.check.compare.PIECE", piece)
    assert isinstance(scene.judge(), float)
    for bad in ([0], [7, 8], [23], [4, 5, 6]):
        scene.out = scene.expected.astype(np.float32)
        scene.out[bad] += 1
        wrong = scene.wrong()
        assert wrong.bad == len(bad) and wrong.index == divmod(bad[0], 8)
        assert wrong.got == pytest.approx(wrong.expected + 1)
    scene.out = scene.expected.astype(np.float32)
    scene.input_after[29] = -1
    assert scene.wrong().reason == "input_changed" and scene.wrong().index == (1, 13)


def test_copies_are_compared_unless_they_are_the_first_again(scene: Scene, tmp_path: Path) -> None:
    """Several buffer sets of timed launches lie one after the other in each file."""
    scene.judge()
    good = {name: (tmp_path / f"{name}.after").read_bytes() for name in ("out", "input")}
    bad = scene.expected.astype(np.float32)
    bad[3] += 1
    guarded = np.concatenate([scene.guard, bad.view(np.uint8), scene.guard]).tobytes()
    for sets, right in ((["out", "out", "out"], True), (["out", "out", "bad"], False)):
        (tmp_path / "out.after").write_bytes(b"".join({**good, "bad": guarded}[s] for s in sets))
        (tmp_path / "input.after").write_bytes(good["input"] * 3)
        oracle_case = OracleCase(scene.case, tmp_path, tmp_path)
        report = CaseReport(guard_bytes=GUARD, copies=3)
        verdict = compare(TASK, CaseRun(oracle_case, tmp_path, report, PATTERN))
        assert isinstance(verdict, float) is right


def test_what_stays_as_it_was_need_not_be_written_by_a_sample_of_blocks(tmp_path: Path) -> None:
    """Half of the tokens ran, and a rotation in place changes 2 of 64 elements."""
    task = contract("rotary_embedding")
    dims = {"tokens": 4, "heads": 1, "kv_heads": 1, "head_size": 64, "rot_dim": 2}
    case = Case(dims={**dims, "max_position": 1}, dtype="float16")
    before = np.arange(256, dtype=np.float16).reshape(4, 64)
    after, ran = before.copy(), np.zeros((4, 64), np.bool_)
    after[:, :2] += 1
    ran[:2, :2] = True
    left = np.where(ran, after, before)
    for arg in task.args:
        content = left if arg.written else np.zeros(arg.bytes_of(case), np.uint8)
        content.tofile(tmp_path / f"{arg.name}.after")
        (before if arg.written else content).tofile(tmp_path / f"{arg.name}.in")
        if arg.written:
            after.astype(np.float64).tofile(tmp_path / f"{arg.name}.expected")
    run = CaseRun(
        OracleCase(case, tmp_path, tmp_path),
        tmp_path,
        CaseReport(sampled="2 of 4 blocks", sampled_share=0.5),
        PATTERN,
    )
    for arg in task.args[1:3]:
        ran.repeat(2).tofile(tmp_path / f"{arg.name}.written")
    assert compare(task, run) == 0.0
    np.zeros(512, np.bool_).tofile(tmp_path / "key.written")
    found = compare(task, run)
    assert isinstance(found, Wrong) and (found.argument, found.reason) == ("key", "unwritten")
    assert found.index == (0, 0, 0) and found.bad == 8


@pytest.mark.parametrize(("blocks", "bare"), [(1024, True), (1023, False), (0, False)])
def test_a_sample_of_many_blocks_writes_some_of_each_part(
    scene: Scene, blocks: int, bare: bool
) -> None:
    """The last quarter of the tokens is written by nobody: half of the share is, all the same."""
    written = np.arange(24) % 2 == 0
    scene.sampled_share, scene.spread_blocks = 0.5, blocks
    scene.out[~written] = np.nan
    written.repeat(4).tofile(scene.folder / "out.written")
    assert isinstance(scene.judge(), float)
    written[18:] = False
    written.repeat(4).tofile(scene.folder / "out.written")
    verdict = scene.judge()
    assert isinstance(verdict, Wrong) == bare
    if isinstance(verdict, Wrong):
        assert (verdict.reason, verdict.index) == ("unwritten", (2, 2))
        assert "no element of one of 8 equal parts of the argument" in verdict.note


def test_draws_of_a_sample_of_blocks_are_judged(tmp_path: Path) -> None:
    task = contract("sample_symbols")
    case = Case(dims={"draws": 131072, "symbols": 5}, dtype="float32")
    np.zeros(20, np.uint8).tofile(tmp_path / "weights.after")
    np.zeros(20, np.uint8).tofile(tmp_path / "weights.in")
    np.full(5, 0.2).tofile(tmp_path / "samples.expected")
    ran = np.arange(131072) % 3 > 0
    ran.repeat(4).tofile(tmp_path / "samples.written")
    report = CaseReport(sampled="2 of 3 blocks", sampled_share=2 / 3)
    run = CaseRun(OracleCase(case, tmp_path, tmp_path), tmp_path, report, PATTERN)
    draws = np.random.default_rng(1).integers(5, size=131072, dtype=np.int32)
    np.where(ran, draws, -7).astype(np.int32).tofile(tmp_path / "samples.after")
    assert compare(task, run) == 0.0
    np.where(ran, draws % 4, -7).astype(np.int32).tofile(tmp_path / "samples.after")
    found = compare(task, replace(run))
    assert isinstance(found, Wrong) and found.reason == "distribution"
    np.full(131072 * 4, False).tofile(tmp_path / "samples.written")
    found = compare(task, replace(run))
    assert isinstance(found, Wrong) and found.reason == "unwritten"
