"""Four baselines of a module, from what its process reports; what was not run says why."""

from __future__ import annotations

import pytest

from astra_chat.tools.run.protocol import CaseReport, ModuleReport
from astra_chat.tools.timing.module_times import COMPILED, EAGER, PairTimes, module_times
from astra_chat.tools.types import Case
from tests.time_samples import raw_times
from tests.tools.timing.test_gpu_samples import block

CASE = Case(dims={"rows": 4}, dtype="float32")


def report(way: str, graph_us: float, call_us: float) -> ModuleReport:
    """A module that takes so long beside a candidate of 2 us, or 6 us launched alone."""
    blocks = [block(2.0).model_copy(update={"baseline": (graph_us, graph_us)})] * 10
    same = [b.model_copy(update={"control": (graph_us, graph_us)}) for b in blocks]
    times = raw_times(same, baseline_event_us=(call_us,) * 20, candidate_event_us=(6.0,) * 20)
    return ModuleReport(way=way, report=CaseReport(times=times))


def rows(*reports: ModuleReport, caches: int = 3) -> dict[str, PairTimes | str]:
    found = module_times(reports, CASE, 1.0, 0.1, "its process was killed", caches)
    assert tuple(one.baseline for one in found) == (*EAGER, *COMPILED)
    return {one.baseline: one.times or one.not_run for one in found}


def test_each_baseline_counts_by_its_fastest_compilation() -> None:
    reports = [
        report("eager", 5.0, 30.0),
        report("compile 1", 4.0, 50.0),
        report("compile 2", 3.0, 60.0),
    ]
    found = module_times(reports, CASE, 1.0, 0.1, "", 2)
    expected = [(30.0, 5.0), (5.0, 2.5), (50.0, 50 / 6), (3.0, 1.5)]
    times = [one.times for one in found]
    assert [(t.us, t.ratio) for t in times if t] == [
        (us, pytest.approx(ratio)) for us, ratio in expected
    ]
    assert [one.compilations_us for one in found] == [(), (), (50.0, 60.0), (4.0, 3.0)]


def test_what_was_not_run_is_named_with_its_reason() -> None:
    failed = ModuleReport(way="compile 1", not_run="BackendCompilerFailed: no Triton")
    found = rows(report("eager", 5.0, 30.0), failed)
    assert isinstance(found["eager"], PairTimes)
    assert found["torch.compile"] == found["torch.compile, CUDA graph"] == failed.not_run
    assert set(rows().values()) == {"its process was killed"}
    assert "--compilations 0" in str(rows(caches=0)["torch.compile"])


def test_an_impossible_time_is_no_time() -> None:
    found = module_times([report("eager", 5.0, 30.0)], CASE, 1.0, 3.0, "", 1)
    assert found[0].times is None and "implausible" in found[0].not_run
