"""Results that equal the baseline's byte for byte are not looked at again: what is found is what a
look finds, and what a kernel changed beside them still counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.tools.check.calls import _looked
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.types import Case, ValueFamily, Wrong
from tests.tools.check.made_results import Kernel, activated, nearest

PATTERN = 0x7FA5
GUARD = np.full(32, PATTERN, np.uint16).view(np.uint8)


class Calls:
    """Calls of silu_and_mul on one case, and what is known of the baseline's."""

    def __init__(self, folder: Path, values: ValueFamily = "normal") -> None:
        case = Case(dims={"tokens": 24, "d": 64}, dtype="float16", values=values, seed=5)
        self.kernel = Kernel(folder, "silu_and_mul", case)
        self.out = nearest(activated(self.kernel), torch.float16)

    def run(self, guard: np.ndarray = GUARD) -> CaseRun:
        run = self.kernel.run({"out": self.out})
        for file in (self.kernel.folder / f"{name}.after" for name in ("out", "input")):
            np.concatenate([GUARD, np.fromfile(file, np.uint8), guard]).tofile(file)
        return replace(run, report=CaseReport(guard_bytes=len(GUARD)))

    def known(self, *, measured: bool = True) -> BaselineErrors:
        errors, run = BaselineErrors(self.kernel.task), self.run()
        worst = compare(self.kernel.task, run)
        assert isinstance(worst, float)
        errors.take(errors.measured_of(run, None, measured=measured, worst=worst), None)
        return errors


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.mark.parametrize("measured", [True, False])
@pytest.mark.parametrize("values", ["normal", "large", "special", "binary"])
def test_equal_results_get_what_a_look_finds(
    tmp_path: Path, values: ValueFamily, measured: bool
) -> None:
    calls = Calls(tmp_path, values)
    task, errors = calls.kernel.task, calls.known(measured=measured)
    unknown = BaselineErrors(task)
    unknown.learn(calls.run(), measured=measured)
    assert errors.same(calls.run()) and unknown.same(calls.run()) is None
    found, looked = (_looked(task, one, calls.run()) for one in (errors, unknown))
    assert (found.verdict, found.error) == (looked.verdict, looked.error)
    assert found.precision.shares == looked.precision.shares
    assert found.precision.bias.ties.total == looked.precision.bias.ties.total
    for kind, by_call in looked.precision.bias.sums.items():
        for call, sums in by_call.items():
            assert (found.precision.bias.sums[kind][call].total == sums.total).all()
    assert found.precision.bias.sums.keys() == looked.precision.bias.sums.keys()


def test_what_changed_beside_equal_results_is_found(calls: Calls) -> None:
    errors, guard = calls.known(), GUARD.copy()
    guard[3] ^= 1
    run = calls.run(guard)
    assert errors.same(run)
    found = _looked(calls.kernel.task, errors, run)
    assert isinstance(found.verdict, Wrong) and found.verdict.reason == "write_outside"


def test_an_input_that_changed_beside_equal_results_is_found(calls: Calls) -> None:
    errors = calls.known()
    value = calls.kernel.inputs["input"]
    assert value is not None
    value[3, 7] += 1
    found = _looked(calls.kernel.task, errors, calls.run())
    assert isinstance(found.verdict, Wrong) and found.verdict.reason == "input_changed"


def test_one_other_bit_is_looked_at(calls: Calls) -> None:
    errors = calls.known()
    calls.out.view(torch.int16)[5, 9] ^= 1
    assert errors.same(calls.run()) is None
    found = _looked(calls.kernel.task, errors, calls.run())
    assert isinstance(found.verdict, float) and isinstance(found.error, Wrong)


def test_a_sample_several_copies_and_a_forgotten_case_are_looked_at(calls: Calls) -> None:
    errors, run = calls.known(), calls.run()
    copies = replace(run, report=CaseReport(guard_bytes=len(GUARD), copies=2))
    assert errors.same(copies) is None
    np.ones(calls.out.numel() * 2, np.bool_).tofile(run.folder / "out.written")
    assert errors.same(replace(run)) is None
    (run.folder / "out.written").unlink()
    assert errors.same(calls.run())
    errors.forget(calls.kernel.case)
    assert errors.same(calls.run()) is None
