"""Sets of timed launches as the runner hands them over: what the oracle says of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.kinds import honest
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.protocol import CaseReport, FetchedSet
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.verdict import judged
from astra_chat.tools.types import Case, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.contracts.planted import contract

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 5, "d": 24}, dtype="float16")
OWN = FetchedSet(mode="cold", number=3, own=True, baseline=True)
OTHER = FetchedSet(mode="cold", number=7, baseline=True)
DOUBTFUL = FetchedSet(mode="warm", number=2)


@pytest.fixture
def run(oracle: Oracle, tmp_path: Path) -> CaseRun:
    """Results of a correct kernel: on the case's inputs, and on others."""
    (own,) = oracle.oracle_cases([CASE], Stop())
    given = np.fromfile(own.inputs / "input.in", dtype=np.float16)
    for place, fetched in enumerate((OWN, OTHER, DOUBTFUL)):
        folder = tmp_path / fetched.folder
        (folder / "baseline").mkdir(parents=True)
        values = np.roll(given, 5 * place)
        if not fetched.own:
            values.tofile(folder / "input.in")
        gate, up = np.split(values.reshape(5, 48).astype(np.float64), 2, axis=1)
        result = (gate / (1 + np.exp(-gate)) * up).astype(np.float16)
        result.tofile(folder / "out.after")
        if fetched.baseline:
            result.tofile(folder / "baseline" / "out.after")
    return CaseRun(own, tmp_path, CaseReport(sets=(OWN, OTHER, DOUBTFUL)), 0x7FA5)


def spoil(run: CaseRun, place: str) -> None:
    path = run.folder / place / "out.after"
    values = np.fromfile(path, dtype=np.float16)
    values[100] += 1
    values.tofile(path)


@pytest.mark.second_tier
def test_correct_results_are_those_on_the_case_s_own_inputs(oracle: Oracle, run: CaseRun) -> None:
    assert run.oddity(TASK.args) is None
    before = set(oracle.inputs.iterdir())
    found = judged(TASK, run, oracle, Stop(), set())
    assert isinstance(found, CaseRun)
    assert found.folder == run.folder / "cold-3" and found.oracle_case == run.oracle_case
    assert set(oracle.inputs.iterdir()) == before, "inputs of other sets are not kept"


@pytest.mark.parametrize(
    ("fetched", "words"),
    [(OWN, "L2 cold"), (OTHER, "L2 cold"), (DOUBTFUL, "L2 warm")],
)
def test_a_wrong_element_of_any_set_is_wrong(
    oracle: Oracle, run: CaseRun, fetched: FetchedSet, words: str
) -> None:
    spoil(run, fetched.folder)
    found = judged(TASK, run, oracle, Stop(), set())
    assert isinstance(found, Wrong) and found.index == (4, 4) and words in found.note


@pytest.mark.parametrize("fetched", [OWN, OTHER])
def test_a_baseline_that_is_wrong_vouches_for_nothing(
    oracle: Oracle, run: CaseRun, fetched: FetchedSet
) -> None:
    right = set[str]()
    folder = run.folder.with_name(f"{run.folder.name}-earlier")
    earlier = replace(run, folder=shutil.copytree(run.folder, folder))
    assert isinstance(judged(TASK, earlier, oracle, Stop(), right), CaseRun) and len(right) == 2
    spoil(run, f"{fetched.folder}/baseline")
    with pytest.raises(BadInput, match=r"the baseline of silu_and_mul is wrong .* out\[4, 4\]"):
        judged(TASK, run, oracle, Stop(), right)


def test_bytes_that_changed_and_may_not_are_wrong(oracle: Oracle, run: CaseRun) -> None:
    report = run.report.model_copy(update={"touched": ("input",)})
    found = judged(
        TASK, CaseRun(run.oracle_case, run.folder, report, 0x7FA5), oracle, Stop(), set()
    )
    assert isinstance(found, Wrong)
    assert (found.argument, found.reason) == ("input", "write_outside")


@pytest.mark.parametrize(
    "name", ["cold-7/input.in", "warm-2/out.after", "cold-3/baseline/out.after"]
)
def test_a_file_of_another_size_is_odd(run: CaseRun, name: str) -> None:
    (run.folder / name).write_bytes(b"short")
    odd = run.oddity(TASK.args)
    assert odd is not None and name in odd.message


@pytest.mark.second_tier
def test_draws_are_judged_though_what_they_come_from_is_not_handed_over(tmp_path: Path) -> None:
    task = contract("sample_symbols")
    case = Case(dims={"draws": 131072, "symbols": 30}, dtype="float32")
    fetched = FetchedSet(mode="cold", number=1, own=True, baseline=True)
    oracle = Oracle(task)
    try:
        (own,) = oracle.oracle_cases([case], Stop())
        chances = np.asarray(own.expected(task.args[0]))
        draws = honest(chances, 30, 131072, np.random.default_rng(1))
        for folder in (tmp_path / fetched.folder, tmp_path / fetched.folder / "baseline"):
            folder.mkdir()
            draws.astype(np.int32).tofile(folder / "samples.after")
        run = CaseRun(own, tmp_path, CaseReport(sets=(fetched,)), 0x7FA5)
        assert isinstance(judged(task, run, oracle, Stop(), set()), CaseRun)
        np.zeros(131072, np.int32).tofile(tmp_path / fetched.folder / "samples.after")
        found = judged(task, run, oracle, Stop(), set())
        assert isinstance(found, Wrong) and found.reason == "distribution"
    finally:
        oracle.close()
