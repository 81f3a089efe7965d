"""The host's half of CUPTI's range profiler: which metrics there are, and in how many passes. It
needs libcupti and no GPU. And which calls are counted together."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.profiling.hardware_counters import UNITS
from astra_chat.tools.profiling.metrics import ASKED, BY_CUPTI, KEY, MORE_PASSES, NEEDED
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners import cuda_counters
from astra_chat.tools.runners.cuda_counters import groups
from astra_chat.tools.runners.cupti import CuptiError, HostMetrics, library
from astra_chat.tools.task.folder import find_task

OF_THE_DRIVER = ("launch__", "sm__maximum_warps")
"""Beginnings of names that are Nsight Compute's own, which no counter has."""
PLAIN_UNITS = {"byte", "warp"}
PASSES, PASSES_OF_ALL = 10, 16


@pytest.fixture(scope="module")
def hopper() -> HostMetrics:
    try:
        return HostMetrics("GH100", BY_CUPTI)
    except CuptiError as error:
        pytest.skip(str(error))


def test_a_hopper_counts_what_an_evaluation_asks_for(hopper: HostMetrics) -> None:
    counted = {name for name in BY_CUPTI if not name.startswith(OF_THE_DRIVER)}
    assert set(hopper.units) == counted and set(NEEDED) <= counted and set(KEY) <= set(BY_CUPTI)
    assert set(hopper.units.values()) <= set(UNITS) | PLAIN_UNITS
    assert (hopper.passes, HostMetrics("GH100", ASKED).passes) == (PASSES, PASSES_OF_ALL)
    for name in MORE_PASSES:
        assert HostMetrics("GH100", [*BY_CUPTI, name]).passes > PASSES


def test_metrics_that_a_gpu_lacks_are_left_out(hopper: HostMetrics) -> None:
    ampere = HostMetrics("GA100", BY_CUPTI)
    assert [name for name in hopper.units if name not in ampere.units] == [
        "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio"
    ]
    with pytest.raises(CuptiError, match="INVALID_CHIP_NAME"):
        HostMetrics("GX999", BY_CUPTI)


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise RuntimeError(f"{name} was not found\nin any of these places")

    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", missing)
    library.cache_clear()
    try:
        with pytest.raises(CuptiError) as raised:
            HostMetrics("GH100", BY_CUPTI)
    finally:
        library.cache_clear()
    text = str(raised.value)
    assert text == "no libcupti (cupti was not found): pip install 'astra-chat[counters]'"
    assert raised.value.code == 0


def test_calls_are_counted_together_as_far_as_memory_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pass makes all calls of a group; the order of calls is kept."""
    task = find_task("silu_and_mul")
    calls = [CallRequest(case=case, inputs=Path(), after=Path()) for case, _ in task.bench]
    assert groups(task, calls) == [calls]
    sizes = [sum(arg.bytes_of(call.case) for arg in task.args) for call in calls]
    monkeypatch.setattr(cuda_counters, "GROUP_BYTES", max(sizes))
    found = groups(task, calls)
    assert [call for group in found for call in group] == calls and len(found) > 1
    for group in found:
        held = sum(sum(arg.bytes_of(call.case) for arg in task.args) for call in group)
        assert held <= max(sizes)
