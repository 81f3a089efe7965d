"""What a check counts as it goes: calls, repeats and their bits, the words of a late failure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.calls import CheckProgress, _in_context, passed
from astra_chat.tools.evaluation import ErrorNorm
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.requests import Call
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Crashed, Wrong

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 2, "d": 8}, dtype="float16")


@pytest.fixture
def oracle_case(tmp_path: Path) -> OracleCase:
    return OracleCase(CASE, tmp_path / "expected", tmp_path / "inputs")


def run(oracle_case: OracleCase, folder: Path, value: float) -> CaseRun:
    np.full(16, value, dtype=np.float16).tofile(folder / "out.after")
    np.zeros(32, dtype=np.float16).tofile(folder / "input.after")
    return CaseRun(oracle_case, folder, CaseReport(), 0x7FA5)


@pytest.mark.parametrize(("second", "same"), [(1.0, True), (1.5, False)])
def test_repeats_are_compared_bit_by_bit(
    oracle_case: OracleCase, tmp_path: Path, second: float, same: bool
) -> None:
    seen = CheckProgress()
    seen.add(TASK, Call(oracle_case), run(oracle_case, tmp_path, 1.0))
    assert seen.correct().deterministic is None, "nothing was repeated yet"
    seen.add(TASK, Call(oracle_case, "graph", hidden=True), run(oracle_case, tmp_path, second))
    record = seen.record(TASK, ["one"])
    assert seen.correct().deterministic is same and record.repeats == 1
    assert record.how == {"fresh": 1, "graph": 1} and record.left_out == ("one",)
    assert (record.elements, record.read_bytes, record.guard_bytes) == (32, 128, 0)


def test_the_error_nearest_to_its_limit_is_kept(oracle_case: OracleCase) -> None:
    def norm(candidate: float, limit: float) -> ErrorNorm:
        return ErrorNorm(
            case=CASE,
            argument="out",
            candidate_ulps=candidate,
            baseline_ulps=0.5,
            limit_ulps=limit,
        )

    seen = CheckProgress()
    for error in (norm(0.4, 1.0), None, norm(0.6, 1.0), norm(0.9, 2.0)):
        seen.nearest(error)
    assert seen.worst_error == norm(0.6, 1.0)
    assert seen.correct().error_ratio == pytest.approx(1.2)


def test_a_failure_says_what_was_right_before(oracle_case: OracleCase, tmp_path: Path) -> None:
    seen = CheckProgress()
    seen.add(TASK, Call(oracle_case), run(oracle_case, tmp_path, 1.0))
    late = Call(oracle_case, "same_buffers")
    wrong = Wrong(
        case=CASE, argument="out", reason="value", index=(0, 0), expected=1, got=2, bad=1, total=16
    )
    told = _in_context(wrong, late, seen)
    assert isinstance(told, Wrong)
    assert told.note == (
        "an earlier call on the same inputs was correct;"
        " called in buffers that previously held other inputs; 1 case passed before (1 normal)"
    )
    crashed = _in_context(Crashed(case=CASE, message="gone"), Call(oracle_case), CheckProgress())
    assert isinstance(crashed, Crashed) and crashed.message == "gone"


def test_a_wrong_verdict_names_the_kinds_of_cases_that_passed(tmp_path: Path) -> None:
    cases = [
        CASE,
        CASE.model_copy(update={"values": "special", "pad": 8}),
        CASE.model_copy(update={"offsets": {"input": 1}}),
    ]
    made = [OracleCase(case, tmp_path / str(n), tmp_path) for n, case in enumerate(cases)]
    calls = [Call(one) for one in (*made, made[0])]
    assert passed(calls) == (
        "3 cases passed before (2 normal, 1 special; 1 with padded rows; 1 off a 256-byte boundary)"
    )
    assert passed([]) == ""
