"""On a real GPU: kernels that are wrong in a narrow part of the legal domain."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.sweep import MAX_JUDGED, Sweep, _to_judge
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Correct, Crashed, Wrong
from tests.tools.check.planted_line import planted

TASK = find_task("silu_and_mul")
Result = tuple[int, list[OracleCase]] | Failure


def swept(oracle: Oracle, source: str) -> Result:
    device = pick_device("cuda")
    built, runner = build(TASK, source, device), Runner(TASK, device)
    assert isinstance(built, Build), built
    return Sweep(runner, oracle, Entropy("5").cases).doubtful(runner, built)


@pytest.mark.gpu
def test_a_right_kernel_is_in_no_doubt(oracle: Oracle, scalar: str) -> None:
    result = swept(oracle, scalar)
    assert isinstance(result, tuple), result
    compared, doubtful = result
    assert compared > 900
    assert not [t for t in doubtful if "special" not in (t.case.values, *t.case.families.values())]


@pytest.mark.gpu
def test_a_kernel_that_leaves_rows_out_between_two_sizes_is_in_doubt(
    oracle: Oracle, scalar: str
) -> None:
    result = swept(oracle, planted(scalar, "if (d > 500 && d < 560 && tokens > 1) --tokens;"))
    assert isinstance(result, tuple), result
    assert any(500 < t.case.dims["d"] < 560 for t in result[1])


@pytest.mark.gpu
def test_a_call_that_fails_is_named(oracle: Oracle, scalar: str) -> None:
    source = planted(scalar, "if (d > 500 && d < 560) out = nullptr;")
    result = swept(oracle, source)
    assert isinstance(result, Crashed) and 500 < result.case.dims["d"] < 560, result


@pytest.mark.gpu
def test_what_is_in_doubt_goes_through_the_check(oracle: Oracle, scalar: str) -> None:
    device = pick_device("cuda")
    checker = Checker(Runner(TASK, device), oracle, Entropy("6"))
    outcomes = {}
    for name, line in (
        ("right", ";"),
        ("wrong", "if (d > 500 && d < 560 && tokens > 7) tokens = 7;"),
    ):
        built = build(TASK, planted(scalar, line), device)
        assert isinstance(built, Build), built
        outcomes[name], record = checker.check(built, [])
        assert record.swept > 900 or name == "wrong"
    assert isinstance(outcomes["right"], Correct), outcomes["right"]
    assert isinstance(outcomes["wrong"], Wrong), outcomes["wrong"]


@pytest.mark.second_tier
def test_special_values_are_judged_last(oracle: Oracle) -> None:
    dims = {"tokens": 1, "d": 8}
    plain = [Case(dims=dims, dtype="float16", seed=n) for n in range(MAX_JUDGED)]
    special = Case(dims=dims, dtype="float16", values="special")
    made = oracle.oracle_cases([special, *plain], Stop())
    assert _to_judge(made) == made[1:]
    assert _to_judge(made[:3]) == [*made[1:3], made[0]]
