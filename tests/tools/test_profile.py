"""Nsight Compute's page, read; and what is said where it cannot be used."""

from __future__ import annotations

from astra_chat.tools.profile import parse_ncu, unprofiled
from astra_chat.tools.types import Case, MeasuredTime

PAGE = """==PROF== Connected to process 1
==PROF== Disconnected
"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","launch__registers_per_thread"
"","","nsecond","byte","register/thread"
"0","first","2,048","1,000","32"
"1","second","1024","500","40"
"""


def test_counts_add_up_and_shares_are_averaged() -> None:
    metrics = parse_ncu(PAGE)
    assert metrics["gpu__time_duration.sum"].value == 3072
    assert metrics["gpu__time_duration.sum"].unit == "nsecond"
    assert metrics["dram__bytes_read.sum"].value == 1500
    assert metrics["launch__registers_per_thread"].value == 36


def test_a_page_without_kernels_is_empty() -> None:
    assert parse_ncu("==ERROR== No kernels were profiled\n") == {}
    assert parse_ncu("\n".join(PAGE.splitlines()[:4])) == {}


def test_without_ncu_the_time_over_the_limit_speaks() -> None:
    time = MeasuredTime(
        case=Case(dims={"tokens": 1, "d": 8}, dtype="float16"), weight=1, baseline_us=2,
        median_us=1, ratio=2, ratio_low=2, ratio_high=2, limit_us=0.9, percent_of_limit=90,
        baseline_event_us=8, event_us=7, sm_clock_mhz=1980,
    )  # fmt: skip
    profile = unprofiled(time, "no ncu on this machine")
    assert profile.bottleneck == "dram" and "no ncu" in profile.why and not profile.metrics
