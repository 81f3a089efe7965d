"""Batch invariance: which calls are drawn, and what is found of kernels that look at the batch."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.check.calls import CheckProgress, check
from astra_chat.tools.check.same_rows import SameRows, row_cases
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.batch_invariance import larger, taken
from astra_chat.tools.task.case_text import case_text, read_case
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Correct, Device, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.contracts.planted import planted

TASK = find_task("fused_add_rmsnorm_batch_invariant")
WHOLE = Case(dims={"tokens": 300, "h": 4096}, dtype="float32", seed=17)
"""Results of 16 bits rarely show that a sum was made in another order."""
BACKWARDS = """
  const bool turned = {when};
  for (int i = threadIdx.x; i < h; i += kThreads) {
    const int at = turned ? h - 1 - i : i;
    const float sum = to_float(input_row[at]) + to_float(residual_row[at]);
    own += sum * sum;
"""
LOOP = """
  for (int at = threadIdx.x; at < h; at += kThreads) {
    const float sum = to_float(input_row[at]) + to_float(residual_row[at]);
    own += sum * sum;
"""
TREE = """
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
    __syncthreads();
  }
"""
IN_FOUR = """
  if (gridDim.x < 8) {
    if (threadIdx.x < 64) {
      squares[threadIdx.x] = (squares[threadIdx.x] + squares[threadIdx.x + 64]) +
                             (squares[threadIdx.x + 128] + squares[threadIdx.x + 192]);
    }
    __syncthreads();
  }
  for (int half = gridDim.x < 8 ? 32 : kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
    __syncthreads();
  }
"""
LAUNCH = "<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>"
FAULTS: Mapping[str, tuple[str, str]] = {
    "another order from 256 rows on": (LOOP, BACKWARDS.replace("{when}", "gridDim.x >= 256")),
    "a wider tree for few rows": (TREE, IN_FOUR),
    "another order for every second row": (
        LOOP,
        BACKWARDS.replace("{when}", "blockIdx.x % 2 == 1"),
    ),
    "another order from 16 rows for each of 132 multiprocessors on": (
        LOOP,
        BACKWARDS.replace("{when}", "gridDim.x > 16 * 132"),
    ),
    "another order for a row that is alone": (LOOP, BACKWARDS.replace("{when}", "gridDim.x == 1")),
}


def group(whole: Case, *counts: int) -> list[Case]:
    """A large call, and calls on its rows."""
    parts = [
        whole.model_copy(
            update={"dims": {**whole.dims, "tokens": n}, "rows_of": whole.dims["tokens"]}
        )
        for n in counts
    ]
    return [whole, *parts, *(parts[0].model_copy(update={"rows_draw": n}) for n in range(1, 5))]


def judged(source: str, cases: list[Case], oracle: Oracle, device: Device) -> tuple[object, int]:
    """What is said of a kernel on these calls, and how many rows were compared."""
    stop = Stop()
    built = build_all(TASK, [source], device, stop)[0]
    assert isinstance(built, Build)
    runner = Runner(TASK, device, stop, seed=Entropy("c17").cases)
    rows = SameRows(TASK)
    calls = [Call(one, hidden=True) for one in oracle.oracle_cases(cases, stop)]
    return check(runner, built, calls, seen=CheckProgress(), rows=rows), rows.compared


@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.second_tier
def test_the_baseline_has_the_same_bits_in_every_batch(device: str, oracle: Oracle) -> None:
    outcome, compared = judged(
        TASK.baseline, group(WHOLE, 1, 7, 255, 300), oracle, pick_device(device)
    )
    assert isinstance(outcome, Correct), describe(outcome)  # type: ignore[arg-type]
    assert compared == 5 * 1 + 7 + 255 + 300


@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.second_tier
@pytest.mark.parametrize("fault", FAULTS)
def test_a_kernel_that_looks_at_the_batch_is_wrong(fault: str, device: str, oracle: Oracle) -> None:
    source = planted(TASK.baseline, {fault: FAULTS[fault]})[fault]
    many = max(row_cases(TASK, "virtual", random.Random(3)), key=TASK.least_bytes)
    whole = many if "16 * 132" in source else WHOLE
    outcome, _ = judged(source, group(whole, 1, 7, 255), oracle, pick_device(device))
    assert isinstance(outcome, Wrong) and outcome.reason == "batch_variant"
    said, rows = describe(outcome), whole.dims["tokens"]
    assert "bits of a row depend on its batch" in said and f"tokens = {rows} are the same" in said
    assert "ulp" in outcome.note and f"row {outcome.index[0]} of" in outcome.note


def test_rows_are_those_of_the_larger_call(oracle: Oracle) -> None:
    whole = Case(dims={"tokens": 20, "h": 16}, dtype="float32", seed=5)
    first, part = oracle.oracle_cases(group(whole, 6)[:2], Stop())
    assert larger(part.case, "tokens") == whole
    places = taken(part.case, "tokens")
    assert len(set(places)) == 6 and places != sorted(places)
    for arg in TASK.args:
        contents = [one.input_path(arg).read_bytes() for one in (first, part)]
        size = 16 * 4
        rows = [contents[0][size * place : size * (place + 1)] for place in places]
        assert contents[1] == (contents[0] if arg.name == "weight" else b"".join(rows))


def test_a_case_of_rows_is_read_and_written() -> None:
    text = '{ tokens = 3, h = 8, dtype = "float16", rows_of = 40 }'
    case = read_case(TASK, text)
    assert (case.rows_of, case.label) == (40, "3x8 float16 some of 40 rows")
    assert read_case(TASK, case_text(case)) == case
    with pytest.raises(BadInput, match="rows_of = 2 is less than tokens = 3"):
        read_case(TASK, text.replace("40", "2"))
    with pytest.raises(BadInput, match="rows_of requires a task with batch_invariant"):
        read_case(find_task("fused_add_rmsnorm"), text)


@pytest.mark.parametrize("confirming", [False, True])
def test_groups_have_single_rows_and_known_numbers_of_rows(confirming: bool) -> None:
    cases = row_cases(TASK, "virtual", random.Random(3), [129, 10**6], confirming=confirming)
    large = [case for case in cases if not case.rows_of]
    assert {case.dtype for case in large} == set(TASK.dtypes)
    assert len(large) == (9 if confirming else 7)
    precise = [case for case in large if case.dtype == "float32"]
    assert max(case.dims["tokens"] for case in precise if case.dims["h"] >= 2048) > 16 * 148
    assert max(TASK.least_bytes(case) for case in large) > 2**23
    for whole in large:
        counts = [c.dims["tokens"] for c in cases if c.rows_of and larger(c, "tokens") == whole]
        assert 1 in counts and (129 in counts or whole.dims["tokens"] < 129)
    assert all(TASK.allows(case) for case in cases)
    assert row_cases(find_task("rmsnorm"), "virtual", random.Random(3)) == []
