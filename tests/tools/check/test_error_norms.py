"""Error norms on made-up results: honest rounding in any order passes, lost bits do not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.error_norms import FEW, BaselineErrors, Norm
from astra_chat.tools.check.floats import Array, rounded
from astra_chat.tools.evaluation import ErrorNorm
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import (
    Case,
    DTypeName,
    ValueFamily,
    Wrong,
)

TASK = find_task("silu_and_mul")
OUT = TASK.args[0]
ROWS, WIDTH = 64, 64
RNG = np.random.default_rng(3)
STORAGE = {"float16": np.float16, "float32": np.float32}


class Bench:
    """A case with an expected result, a yardstick, and runs of a made-up baseline or candidate."""

    def __init__(
        self, folder: Path, dtype: DTypeName, values: ValueFamily = "normal", rows: int = ROWS
    ) -> None:
        self.case = Case(dims={"tokens": rows, "d": WIDTH}, dtype=dtype, values=values)
        self.folder, self.dtype = folder, dtype
        self.expected = RNG.standard_normal(rows * WIDTH)
        self.baseline_errors = BaselineErrors(TASK)

    def run(self, out: Array) -> CaseRun:
        self.expected.tofile(self.folder / "out.expected")
        out.astype(STORAGE[self.dtype]).tofile(self.folder / "out.after")
        return CaseRun(
            OracleCase(self.case, self.folder, self.folder), self.folder, CaseReport(), 0x7FA5
        )

    def judge(self, baseline: Array, candidate: Array) -> ErrorNorm | Wrong | None:
        self.baseline_errors.learn(self.run(baseline))
        return self.baseline_errors.judge(self.run(candidate))

    def off_by(self, ulps: float) -> Array:
        """Results whose errors are even in +- that many ulps, before they are rounded."""
        unit = np.spacing(np.abs(self.expected).astype(STORAGE[self.dtype])).astype(float)
        return self.expected + RNG.uniform(-ulps, ulps, len(self.expected)) * unit


@pytest.fixture
def half(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "float16")


@pytest.fixture
def single(tmp_path: Path) -> Bench:
    return Bench(tmp_path, "float32")


def test_the_norm_of_correct_rounding_is_below_half_an_ulp(half: Bench) -> None:
    norm = Norm.of(rounded(half.expected, "float16"), half.expected, "float16")
    assert 0.1 < norm.ulps < norm.half_ulps < 0.5
    assert norm.count == ROWS * WIDTH


def test_tiny_elements_are_measured_on_the_scale_of_all(single: Bench) -> None:
    """Cancellation leaves an error that is a million of a tiny element's own ulps."""
    single.expected[::7] = 1e-12
    got = single.expected.copy()
    got[::7] += 1e-8
    assert Norm.of(got, single.expected, "float32").ulps < 1


def test_other_roundings_of_the_same_work_pass(single: Bench) -> None:
    verdict = single.judge(single.off_by(1), single.off_by(1.2))
    assert isinstance(verdict, ErrorNorm)
    assert verdict.candidate_ulps < verdict.limit_ulps


def test_an_exact_baseline_does_not_forbid_rounding(half: Bench) -> None:
    verdict = half.judge(half.expected, half.expected)
    assert isinstance(verdict, ErrorNorm) and verdict.candidate_ulps > 0


def test_lost_bits_are_caught_within_the_tolerance(single: Bench) -> None:
    """Six bits of a float32 lost: a relative error of 4e-6, where 1e-5 is tolerated."""
    bits = rounded(single.expected, "float32").astype(np.float32).view(np.uint32)
    cut = (bits & np.uint32(0xFFFFFFC0)).view(np.float32).astype(float)
    verdict = single.judge(single.off_by(1), cut)
    assert isinstance(verdict, Wrong) and verdict.reason == "precision"
    assert "(baseline: " in verdict.note
    at = int(np.ravel_multi_index(verdict.index, (ROWS, WIDTH)))
    assert verdict.got == cut[at] and verdict.expected == single.expected[at]


def test_zeros_for_small_results_are_caught(half: Bench) -> None:
    """All of them below the absolute tolerance: only the baseline's own error tells."""
    half.expected *= 1e-4
    verdict = half.judge(rounded(half.expected, "float16"), np.zeros(len(half.expected)))
    assert isinstance(verdict, Wrong) and verdict.reason == "value", "no matter of rounding"


def test_a_small_case_leans_on_its_kind(tmp_path: Path) -> None:
    """One row whose scale is off by an ulp or so beside a baseline that is right by luck."""
    small = Bench(tmp_path, "float32", rows=1)
    assert isinstance(small.judge(small.expected, small.off_by(2)), ErrorNorm)


def test_a_norm_that_rests_on_few_elements_allows_more(half: Bench) -> None:
    """A few large results among zeros, as one-hot rows give a norm: a third of an ulp off here,
    two thirds there, both honest. Met on fused_add_rmsnorm."""
    half.expected[:] = 0
    half.expected[::600] = 72.6458
    baseline, other = half.expected.copy(), half.expected.copy()
    other[::600] = 72.6875
    norm = Norm.of(rounded(baseline, "float16"), half.expected, "float16")
    assert norm.resting == pytest.approx(7, abs=0.01) and norm.count == ROWS * WIDTH
    verdict = half.judge(baseline, other)
    assert isinstance(verdict, ErrorNorm)
    assert verdict.candidate_ulps > 1.9 * verdict.baseline_ulps
    assert isinstance(half.judge(baseline, other + np.where(other > 0, 0.0625, 0)), Wrong)
    assert norm.values == 1


def test_arithmetic_in_half_precision_is_told_from_one_rounding(half: Bench) -> None:
    """Its rms error is below twice that of one rounding; its share off the nearest value is not."""
    nearest = rounded(half.expected, "float16")
    twice = rounded(rounded(half.expected / 3, "float16") * 3, "float16")
    norms = [Norm.of(got, half.expected, "float16") for got in (nearest, twice)]
    assert norms[0].ulps < norms[1].ulps < 2 * norms[0].ulps
    assert norms[0].share == 0 and norms[1].share > 0.2 and norms[0].values > 1000
    verdict = half.judge(nearest, twice)
    assert isinstance(verdict, Wrong) and verdict.reason == "precision"
    assert "not the nearest float16" in verdict.note and verdict.got != verdict.expected


def test_the_last_bits_of_float32_move_no_share(half: Bench) -> None:
    """Off by 100 of float32's ulps before the one rounding: another order, a fast exponential."""
    nearest = rounded(half.expected, "float16")
    noisy = half.expected * (1 + RNG.uniform(-100, 100, len(nearest)) * 2.0**-23)
    assert isinstance(half.judge(nearest, rounded(noisy, "float16")), ErrorNorm)
    assert 0 < Norm.of(rounded(noisy, "float16"), half.expected, "float16").share < 0.05


def test_what_zeros_and_ones_make_exact_must_be_exact(tmp_path: Path) -> None:
    scene = Bench(tmp_path, "float32", "binary")
    scene.expected = RNG.integers(0, 9, ROWS * WIDTH).astype(float)
    scene.expected[5] = math.pi
    close = scene.expected.copy()
    assert isinstance(scene.judge(scene.expected, close), ErrorNorm)
    close[5] = np.nextafter(np.float32(math.pi), np.float32(4))
    assert isinstance(scene.judge(scene.expected, close), ErrorNorm), "pi is not exact"
    close[77] = scene.expected[77] + 1e-6
    verdict = scene.judge(scene.expected, close)
    assert isinstance(verdict, Wrong) and verdict.index == (1, 13) and verdict.bad == 1


def test_a_quotient_of_zeros_and_ones_is_exact_by_luck_only(tmp_path: Path) -> None:
    """Weights of a softmax: 1/16 in some rows, where another order of sums is an ulp off."""
    scene = Bench(tmp_path, "float32", "binary")
    ones = np.repeat(RNG.integers(1, 33, ROWS), WIDTH)
    scene.expected = 1 / ones.astype(float)
    nearest = scene.expected.astype(np.float32)
    assert 0.1 < float(np.mean(nearest == scene.expected)) < 0.5
    beside = np.where(RNG.random(ROWS * WIDTH) < 0.5, nearest, np.nextafter(nearest, np.float32(0)))
    assert isinstance(scene.judge(nearest, beside.astype(np.float32)), ErrorNorm)


def test_infinities_and_nans_are_left_to_the_comparison(half: Bench) -> None:
    half.expected[:3] = np.nan, np.inf, 1e9
    got = rounded(half.expected, "float16")
    verdict = half.judge(got, got)
    assert isinstance(verdict, ErrorNorm) and math.isfinite(verdict.candidate_ulps)


def test_without_the_baseline_there_is_no_verdict(half: Bench) -> None:
    run = half.run(half.expected)
    assert half.baseline_errors.judge(run) is None
    half.baseline_errors.learn(run)
    assert half.baseline_errors.judge(run) is not None
    half.baseline_errors.forget(half.case)
    assert half.baseline_errors.judge(run) is None


class TestASingleNumber:
    """Its baseline is off by `ULPS` in the root mean square, its own result by luck by none."""

    ULPS = 4.0
    SEEDS = range(1, FEW)

    @pytest.fixture
    def single(self, tmp_path: Path) -> Bench:
        bench = Bench(tmp_path, "float32", rows=1)
        bench.case = Case(dims={"tokens": 1, "d": 1}, dtype="float32")
        bench.expected = np.array([1.5])
        bench.baseline_errors.learn(bench.run(bench.expected))
        return bench

    def learn_further_seeds(self, bench: Bench) -> None:
        main, own = bench.case, bench.expected
        for seed in self.SEEDS:
            bench.case = main.model_copy(update={"seed": seed})
            bench.expected = np.array([1 + seed / 10])
            error = self.ULPS * (-1) ** seed * 2.0**-23
            bench.baseline_errors.learn(bench.run(bench.expected + error), main)
        bench.case, bench.expected = main, own

    def test_a_baseline_that_is_right_by_luck_forbids_nothing(self, single: Bench) -> None:
        other = single.expected + 5 * self.ULPS * 2.0**-23
        assert isinstance(single.baseline_errors.judge(single.run(other)), Wrong), (
            "what luck would do"
        )
        self.learn_further_seeds(single)
        verdict = single.baseline_errors.judge(single.run(other))
        assert isinstance(verdict, ErrorNorm) and verdict.candidate_ulps == pytest.approx(20)
        assert verdict.baseline_ulps == pytest.approx(self.ULPS * math.sqrt(1 - 1 / FEW), rel=0.02)
        lost = single.expected + 20 * self.ULPS * 2.0**-23
        assert isinstance(single.baseline_errors.judge(single.run(lost)), Wrong)

    def test_a_result_that_is_small_by_luck_is_measured_on_the_scale_of_others(
        self, single: Bench
    ) -> None:
        """Terms that cancel: the error is theirs, and a million of the sum's own ulps."""
        self.learn_further_seeds(single)
        single.expected = np.array([1e-6])
        close, lost = (single.expected + ulps * 2.0**-23 for ulps in (5, 80))
        verdict = single.baseline_errors.judge(single.run(close))
        assert isinstance(verdict, ErrorNorm) and verdict.candidate_ulps == pytest.approx(
            5, rel=0.1
        )
        assert isinstance(single.baseline_errors.judge(single.run(lost)), Wrong)

    def test_many_results_need_no_further_seeds(self, half: Bench) -> None:
        half.baseline_errors.learn(half.run(half.off_by(1)))
        before = half.judge(half.off_by(1), half.off_by(1.2))
        again = half.case.model_copy(update={"seed": 9})
        main, half.case = half.case, again
        run = half.run(half.off_by(30))
        half.case = main
        half.baseline_errors.learn(run, main)
        after = half.baseline_errors.judge(half.run(half.off_by(1.2)))
        assert isinstance(before, ErrorNorm) and isinstance(after, ErrorNorm)
        assert after.baseline_ulps == before.baseline_ulps


def test_what_hardware_flushes_to_zero_is_no_error(tmp_path: Path) -> None:
    """Atomic additions to global memory take denormal numbers for zero; larger ones they do not."""
    for exponent, flushed in ((-128, True), (-100, False)):
        bench = Bench(tmp_path, "float32", "denormal")
        bench.expected *= 2.0**exponent
        verdict = bench.judge(bench.expected, np.zeros_like(bench.expected))
        assert isinstance(verdict, ErrorNorm if flushed else Wrong)


@pytest.mark.parametrize(("values", "passes"), [("one_hot", True), ("normal", False)])
def test_a_serial_sum_of_equal_terms_is_off_by_many_ulps(
    tmp_path: Path, values: ValueFamily, passes: bool
) -> None:
    """The softmax of one-hot rows of 128, all alike: 127 terms of exp(-1) before exp(0)."""
    bench = Bench(tmp_path, "float32", values)
    term = np.float32(math.exp(-1))
    serial = np.cumsum(np.full(127, term), dtype=np.float32)[-1] + np.float32(1)
    bench.expected[:] = 1 / (1 + 127 * math.exp(-1))
    off = abs(1 / float(serial) / bench.expected[0] - 1) * 2**24
    assert off > 5, "ulps"
    verdict = bench.judge(bench.expected, np.full_like(bench.expected, 1 / serial))
    assert isinstance(verdict, ErrorNorm if passes else Wrong)


def test_equal_terms_are_no_excuse_for_fewer_bits(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "float32", "one_hot")
    bench.expected[:] = 0.020955272
    assert isinstance(bench.judge(bench.expected, rounded(bench.expected, "bfloat16")), Wrong)
