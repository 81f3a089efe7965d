"""The fastest of today's kernels on each case, and the tables that show the lost cases first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from astra_chat.tools.types import Case, MeasuredTime
from lab.baselines.evidence import Comparison, Kernel
from lab.rivals import read_registry
from lab.side_by_side import (
    fastest_rivals,
    legend,
    not_run,
    not_timed,
    over_all,
    sections,
    side_by_side,
    warm_ratio,
)
from tests.time_samples import measured_time

WINNER = Kernel(name="winner", tier="winner", what="a live run's", content="0123456789ab")
GPU = "NVIDIA H100 80GB HBM3"


def time(h: int, ratio: float, *, warm: float | None = None, weight: float = 1.0) -> MeasuredTime:
    """Our kernel at 2 us beside one that takes `ratio` times as long; warm at 1 us."""
    return measured_time(
        Case(dims={"tokens": 1, "h": h}, dtype="bfloat16"),
        ratio,
        weight=weight,
        ratio_low=ratio - 0.01,
        ratio_high=ratio + 0.01,
        baseline_event_us=5.0,
        event_us=5.0,
        warm_us=1.0 if warm else None,
        baseline_warm_us=warm,
    )


def beside(
    name: str,
    cases: Sequence[MeasuredTime],
    *,
    task: str = "rmsnorm",
    failure: str = "",
    second: Kernel = WINNER,
) -> Comparison:
    first = Kernel(name=name, tier="today", what="another's", content=name.ljust(12, "0"))
    return Comparison(task=task, first=first, second=second, cases=tuple(cases), failure=failure)


def test_the_fastest_rival_of_a_case_is_that_over_which_the_ratio_is_lowest() -> None:
    found = fastest_rivals(
        [
            beside("jit", [time(128, 0.9, warm=1.2), time(4096, 1.5, warm=1.4)]),
            beside("headers-pdl", [time(4096, 1.1, warm=1.6), time(8192, 1.3)]),
        ]
    )
    assert [(one.time.case.dims["h"], one.name, one.time.ratio) for one in found] == [
        (128, "jit", 0.9),
        (4096, "headers-pdl", 1.1),
        (8192, "headers-pdl", 1.3),
    ]
    # With the data in the L2 another may be the fastest.
    assert [one.warm for one in found] == [(1.2, "jit"), (1.4, "jit"), None]
    assert warm_ratio(time(128, 0.9)) is None and warm_ratio(time(128, 1, warm=3.0)) == 3.0


def test_comparisons_of_an_earlier_winner_do_not_count() -> None:
    other = WINNER.model_copy(update={"content": "f" * 12})
    comparisons = [
        beside("jit", [time(128, 0.5)], second=other),
        beside("headers", [time(128, 1.2)]),
        beside("library", [], failure="it deadlocks"),
        beside("jit", [time(128, 1.0)], task="silu_and_mul"),
    ]
    (one,) = side_by_side(
        comparisons, {"rmsnorm": WINNER.content}, {"rmsnorm": 14}, read_registry()
    )
    assert (one.task, one.candidate, one.mean) == ("rmsnorm", WINNER.content, 1.2)
    assert one.measured == ("headers",) and one.failures == (("library", "it deadlocks"),)
    assert one.warm_mean is None and one.lowest.name == "headers"
    failed = [beside("library", [], failure="it deadlocks")]
    assert side_by_side(failed, {"rmsnorm": WINNER.content}, {"rmsnorm": 14}, read_registry()) == []


@pytest.fixture
def two_tasks() -> list[Comparison]:
    return [
        beside("headers", [time(128, 0.82, weight=2), time(4096, 1.2, warm=1.1)]),
        beside("jit", [time(4096, 1.3, warm=1.05)]),
        beside("library", [], failure="does not build: no header"),
        beside("jit", [time(64, 0.96), time(256, 0.99)], task="silu_and_mul"),
    ]


def test_lost_cases_come_first_the_worst_at_the_top(two_tasks: list[Comparison]) -> None:
    winners = dict.fromkeys(("rmsnorm", "silu_and_mul"), WINNER.content)
    found = side_by_side(two_tasks, winners, {"rmsnorm": 14, "silu_and_mul": 2}, read_registry())
    text = "\n".join(sections(GPU, "2026-11-28", found))
    assert f"## On {GPU}, side by side, 2026-11-28" in text
    lost, _, rest = text.partition("### By task")
    assert "### Lost cases: 3 of 4" in lost
    rows = [line.split(" | ") for line in lost.splitlines() if line.startswith(("| r", "| s"))]
    assert [row[5] for row in rows] == [
        "0.820 (0.810 to 0.830)",
        "0.960 (0.950 to 0.970)",
        "0.990 (0.980 to 1.000)",
    ]
    assert rows[0][:5] == ["| rmsnorm", "1x128 bfloat16", "headers", "1.64", "2.00"]
    by_task, _, each = rest.partition("### Each case")
    rmsnorm = next(line for line in by_task.splitlines() if line.startswith("| rmsnorm"))
    mean = math.exp((2 * math.log(0.82) + math.log(1.2)) / 3)
    assert f"| {mean:.2f} (" in rmsnorm
    waiting = "cute, cute-pdl, headers-pdl, jit-pdl"
    assert f"| 2 of 14 | headers | jit | {waiting} |" in rmsnorm
    # The fastest with the data in the L2 is named where it is another.
    assert "| 1.200 (1.190 to 1.210) | 1.05 (jit) |" in each
    assert "rivals that can be run have not been timed yet" in over_all(found)
    assert len(each.strip().splitlines()) == 2 + 4
    assert over_all(found) in rest
    assert "tasks below 1: rmsnorm, silu_and_mul; cases below 0.97: 2 of 4" in over_all(found)


def test_every_rival_that_was_not_timed_is_named_with_its_reason(
    two_tasks: list[Comparison],
) -> None:
    registry = read_registry()
    found = side_by_side(two_tasks, {"rmsnorm": WINNER.content}, {"rmsnorm": 14}, read_registry())
    lines = list(not_timed(registry, found))
    assert all(line.startswith("- rmsnorm: ") for line in lines)
    (library,) = (line for line in lines if "`library`" in line)
    assert library.endswith("not run: does not build: no header")
    left = [line for line in lines if "not measured yet" in line]
    assert len(left) == 4  # cute, cute-pdl, jit-pdl, headers-pdl


def test_rivals_that_cannot_be_run_are_named_with_the_reason() -> None:
    registry = read_registry()
    timed = {("rmsnorm", name) for name in ("headers", "jit", "library")}
    lines = list(not_run(registry, timed))
    for rival in registry.rival:
        if rival.not_run:
            (said,) = (
                line
                for line in lines
                if line.endswith(f": {rival.not_run}.") and line.startswith(f"- {rival.package}: ")
            )
            assert rival.kernel in said and (not rival.task or f"({rival.task})" in said)
    (waiting,) = (
        x for x in lines if x.startswith("- flashinfer") and "not timed in the files" in x
    )
    assert "RMSNormKernel (CuTe DSL) (rmsnorm);" in waiting
    assert "(CUDA) (rmsnorm)" not in waiting


def test_names_say_whose_kernels_they_are() -> None:
    named = "\n".join(legend(read_registry(), "rmsnorm"))
    assert "`headers-pdl`, `headers`: RMSNormKernel (CUDA) from flashinfer-python" in named
    assert "vllm" not in named
