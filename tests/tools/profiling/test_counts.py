"""What the virtual GPU counts of a kernel that is built for a real one, without that GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.build.preprocessed import SOURCE
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.profile import WORDS, counted_reports, with_counts
from astra_chat.tools.report.results_text import metrics_text
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Device, Timed
from lab.results import read_evaluation
from tests.recorded_files import LIVE

TASK = find_task("silu_and_mul")
DEVICE = Device(kind="cuda", index=0, name="NVIDIA H200", arch="sm_90", spec="h200")
MEASURED = LIVE / "detached/fused_add_rmsnorm-217e1cbd205a-h200.json"
"""It launches clusters, which the virtual GPU does not count."""


@pytest.fixture(scope="module")
def built() -> Build:
    found = build(TASK, TASK.baseline, DEVICE)
    assert isinstance(found, Build)
    return found


@pytest.fixture(scope="module")
def cases() -> Iterator[list[OracleCase]]:
    oracle = Oracle(TASK)
    yield oracle.oracle_cases([case for case, _ in TASK.bench[:2]], Stop())
    oracle.close()


@pytest.fixture(scope="module")
def reports(built: Build, cases: list[OracleCase]) -> list[CaseReport | None]:
    return counted_reports(Runner(TASK, DEVICE), built, cases, limit_s=120)


@pytest.mark.second_tier
def test_what_stands_beside_a_measurement_is_marked_and_has_no_time(
    built: Build, reports: list[CaseReport | None]
) -> None:
    timed = read_evaluation(MEASURED).outcome
    assert isinstance(timed, Timed) and not timed.profile.lines
    source = (built.folder / SOURCE).read_text()
    counted, without = with_counts([timed.profile] * 2, [reports[0], None], source)
    assert without == timed.profile
    added = counted.metrics[len(timed.profile.metrics) :]
    assert counted.metrics[: len(timed.profile.metrics)] == timed.profile.metrics
    assert {m.LOAD_ROUNDS, m.CHAIN, m.CHAIN_BEFORE_LOAD} <= {one.name for one in added} <= m.KNOWN
    assert all(one.words.startswith(WORDS) for one in added) and counted.basis == "measured"
    assert {one.name for one in added}.isdisjoint(one.name for one in timed.profile.metrics)
    assert sum(line.load_rounds for line in counted.lines) == counted.metric(m.LOAD_ROUNDS).value  # type: ignore[union-attr]


def test_a_case_without_counts_has_a_dash(built: Build, reports: list[CaseReport | None]) -> None:
    timed = read_evaluation(MEASURED).outcome
    assert isinstance(timed, Timed)
    profiles = [timed.profile, *timed.other_profiles][:3]
    source = (built.folder / SOURCE).read_text()
    first, *others = with_counts(profiles, [reports[0], reports[1], None], source)
    shown = timed.model_copy(update={"profile": first, "other_profiles": tuple(others)})
    rows = [row.split(" | ") for row in metrics_text(shown).splitlines()]
    told = {row[0]: row[1:] for row in rows}
    lines = [name for name in told if name.startswith(("chain_cycles of", "load_rounds of"))]
    assert lines and all(told[name].count("-") == 1 for name in [*lines, m.CHAIN])


@pytest.mark.second_tier
def test_counting_ends_in_time_and_with_the_user(built: Build, cases: list[OracleCase]) -> None:
    assert counted_reports(Runner(TASK, DEVICE), built, cases, limit_s=0) == [None, None]
    unwanted = Stop()
    unwanted.set()
    assert counted_reports(Runner(TASK, DEVICE), built, cases, unwanted=unwanted) == [None, None]
    stop = Stop()
    runner = Runner(TASK, DEVICE, stop)
    runner.record(built, [one.case for one in cases])
    stop.set()
    with pytest.raises(Cancelled):
        counted_reports(runner, built, cases)
