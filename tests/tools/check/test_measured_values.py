"""Which numbers of a run have a precision, and what codes mean by the scales that were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.floats import as_bytes, ulp
from astra_chat.tools.check.measured_values import coded, measured_args, piece, pieces
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import CANONICAL, OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.types import Case, Wrong
from tests.contracts.planted import contract

TASK = contract("per_token_quant_fp8")
INPUT, CODES, SCALES = TASK.args
TOKENS, HIDDEN = 40, 64


class Scene:
    """What a kernel left: right, until changed."""

    def __init__(self, folder: Path) -> None:
        self.folder, rng = folder, np.random.default_rng(5)
        self.case = Case(dims={"tokens": TOKENS, "hidden": HIDDEN}, dtype="bfloat16")
        self.values = rng.standard_normal((TOKENS, HIDDEN))
        self.scales = np.abs(self.values).max(axis=1, keepdims=True) / 448
        self.expected = self.values / self.scales
        self.got, self.got_scales = self.expected.copy(), self.scales.copy()

    def run(self) -> CaseRun:
        wanted = {"output_q": self.expected, "output_s": self.scales}
        left = {"output_q": self.got, "output_s": self.got_scales, "input": self.values}
        for name, numbers in wanted.items():
            numbers.tofile(self.folder / f"{name}.expected")
        for arg in TASK.args:
            content = as_bytes(left[arg.name].reshape(-1), arg.dtype_of(self.case))
            content.tofile(self.folder / f"{arg.name}.after")
            if arg.read:
                content.tofile(self.folder / f"{arg.name}.in")
        oracle_case = OracleCase(self.case, self.folder, self.folder)
        return CaseRun(oracle_case, self.folder, CaseReport(), pattern=0x7FA5)

    def judge(self) -> object:
        """The verdict by tolerance, steps and share; then beside a baseline that rounds
        correctly."""
        self_run, errors = self.run(), BaselineErrors(TASK)
        verdict = compare(TASK, self_run)
        if isinstance(verdict, Wrong):
            return verdict
        got, scales = self.got, self.got_scales
        self.got, self.got_scales = self.expected, self.scales
        errors.learn(self.run())
        self.got, self.got_scales = got, scales
        return errors.judge(self.run())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_codes_and_scales_are_measured_and_nothing_in_canonical_form(scene: Scene) -> None:
    run = scene.run()
    assert measured_args(TASK, run) == [CODES, SCALES]
    assert coded(CODES) and not coded(SCALES)
    assert [piece[0] for piece in pieces(TASK, run)] == [CODES, SCALES]
    (scene.folder / CANONICAL).touch()
    assert measured_args(TASK, scene.run()) == []


def test_a_result_that_is_absent_is_not_measured(tmp_path: Path) -> None:
    """Zeros and ones are rotated exactly where sin is 0: exactness is asked of what is there."""
    task = contract("rotary_embedding")
    dims = {"tokens": 2, "heads": 1, "kv_heads": 1, "head_size": 4, "rot_dim": 2}
    case = Case(dims={**dims, "max_position": 1}, dtype="float16", values="binary", absent=("key",))
    kept = np.arange(8) % 2
    for arg in task.args:
        numbers = kept if arg.name == "query" else np.zeros(arg.shape_of(case))
        numbers.astype(np.float64).reshape(-1).tofile(tmp_path / f"{arg.name}.expected")
        content = as_bytes(numbers.reshape(-1), arg.dtype_of(case))
        content.tofile(tmp_path / f"{arg.name}.after")
    run = CaseRun(OracleCase(case, tmp_path, tmp_path), tmp_path, CaseReport(), pattern=0x7FA5)
    assert [arg.name for arg in measured_args(task, run)] == ["query"]
    errors = BaselineErrors(task)
    errors.learn(run)
    assert errors.judge(run) is not None


def test_a_code_means_itself_times_the_scale_that_was_written(scene: Scene) -> None:
    whole = piece(TASK, CODES, scene.run())
    got, expected, places = whole.got, whole.expected, whole.ran
    assert len(got) == TOKENS * HIDDEN and places[-1] == TOKENS * HIDDEN - 1
    assert np.abs(got - expected).max() <= 16.01  # half the distance of the largest codes
    scene.got_scales[3] *= 1.5
    again = piece(TASK, CODES, scene.run()).got.reshape(TOKENS, HIDDEN)
    one = got.reshape(TOKENS, HIDDEN)
    assert np.allclose(again[3], 1.5 * one[3]) and np.array_equal(again[4:], one[4:])


def test_right_codes_pass_and_few_may_be_a_step_off(scene: Scene) -> None:
    assert not isinstance(scene.judge(), Wrong)
    off = np.random.default_rng(1).choice(TOKENS * HIDDEN, 20, replace=False)
    scene.got.reshape(-1)[off] *= 1.06
    assert not isinstance(scene.judge(), Wrong)


def test_too_many_codes_a_step_off_are_wrong_with_their_share(scene: Scene) -> None:
    scene.got *= 1.04
    wrong = scene.judge()
    assert isinstance(wrong, Wrong) and wrong.argument == "output_q" and wrong.reason == "value"
    assert "one step off; at most 1.0% may be" in wrong.note


def test_a_code_two_steps_off_is_wrong(scene: Scene) -> None:
    scene.expected[2, 7] = 100.0
    scene.got[2, 7] = 120.0
    wrong = scene.judge()
    assert isinstance(wrong, Wrong) and wrong.index == (2, 7) and wrong.got == 120.0
    assert (wrong.bad, wrong.note) == (1, "a code may be one step away from the nearest code")


def test_scales_have_their_own_tolerance(scene: Scene) -> None:
    scene.got_scales[5] *= 1 + 3e-6
    wrong = scene.judge()
    assert isinstance(wrong, Wrong) and (wrong.argument, wrong.index) == ("output_s", (5, 0))


def test_what_codes_mean_is_held_to_the_baselines_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the share allows every code to be a step off, the error does not."""
    judged = CODES.judged and CODES.judged.model_copy(update={"off_by_one": 1.0})
    loose = CODES.model_copy(update={"judged": judged})
    task = TASK.model_copy(update={"args": (INPUT, loose, SCALES)})
    monkeypatch.setattr("tests.tools.check.test_measured_values.TASK", task)
    scene.got += np.copysign(ulp(scene.got, "float8_e4m3fn"), scene.got)
    wrong = scene.judge()
    assert isinstance(wrong, Wrong) and wrong.reason == "precision" and "rms error" in wrong.note
