"""The parts of a time add up to it, before and after."""

from __future__ import annotations

from astra_chat.report.part_plots import measured_parts, profiled_parts, profiles_of
from astra_chat.tools.profiling.metrics import TIME_PARTS
from astra_chat.tools.types import Metric, Timed
from tests.astra_chat.report.samples import measured, timing
from tests.chat_samples import timed


def with_parts(ratio: float, *parts_us: float) -> Timed:
    found = timed(ratio)
    metrics = tuple(
        Metric(name=name, value=value, unit="us", words="")
        for name, value in zip(TIME_PARTS.values(), parts_us, strict=True)
    )
    profile = found.profile.model_copy(update={"metrics": metrics})
    return found.model_copy(update={"profile": profile})


def test_by_profiles() -> None:
    before, after = (
        with_parts(1.0, 0.5, 0.1, 0.4, 0.6, 0.4),
        with_parts(2.0, 0.5, 0.1, 0.1, 0.2, 0.1),
    )
    profiles = profiles_of(before), profiles_of(after)
    drawing = profiled_parts("r", after.cases, *profiles, "estimated")
    assert drawing is not None and drawing.basis == "estimated" and "<pattern" in drawing.svg
    for words in (
        "baseline: fixed 0.50 us",
        "baseline: block start 0.10 us",
        "best: waits 0.10 us",
    ):
        assert words in drawing.svg
    on_gpu = profiled_parts("r", after.cases, *profiles, "measured")
    assert on_gpu is not None and "<pattern" not in on_gpu.svg and "attributed" in on_gpu.caption


def test_profiles_without_parts() -> None:
    assert profiles_of(timed(1.0)) == {} == profiles_of(None)
    assert profiled_parts("r", timed(1.0).cases, {}, {}, "estimated") is None


def test_by_a_cold_and_a_warm_l2() -> None:
    """Limit, data in the L2, data from memory: of the baseline 1, 2 and 1 us, of the best 1, 0.5
    and 0.5."""
    drawing = measured_parts("r", timing(measured(warm_us=1.5, baseline_warm_us=3.0)), True)
    assert drawing is not None
    for words in (
        "baseline: physical limit 1.00 us",
        "baseline: above it, data in the L2 2.00 us",
        "baseline: data from memory 1.00 us",
        "best: physical limit 1.00 us",
        "best: above it, data in the L2 0.50 us",
        "best: data from memory 0.50 us",
    ):
        assert words in drawing.svg
    assert measured_parts("r", timing(measured()), True) is None, "not measured warm"
    assert measured_parts("r", timing(*timed(2.0).cases), True) is None, "estimated"
