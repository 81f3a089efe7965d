"""Successive halving: who drops out when, at what cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.halving import halved, schedule, spread
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_chat.tools.types import AnyTime, BuildFailed, Outcome, candidate_id
from tests.time_samples import estimated_time

TASK = find_task("silu_and_mul")


class Speeds:
    """Times sources by a table: speed over the baseline on every case, or a failure."""

    def __init__(self, speeds: dict[str, float | None]) -> None:
        self._speeds = speeds
        self.asked: list[tuple[str, int]] = []

    def __call__(self, source: str, weighted: Weighted) -> list[AnyTime] | Outcome:
        self.asked.append((source, len(weighted)))
        speed = self._speeds[source]
        if speed is None:
            return BuildFailed(log="no")
        return [
            estimated_time(
                case,
                speed,
                weight=weight,
                baseline_us=10.0,
                median_us=10.0 / speed,
                percent_of_limit=10.0 * speed,
                limiter="dram",
            )
            for case, weight in weighted
        ]


def run(speeds: dict[str, float | None], kept: int = 2) -> tuple[Halving, Speeds]:
    times = Speeds(speeds)
    return halved(TASK, times, list(speeds), TASK.bench, kept), times


def names(sources: Sequence[str]) -> list[str]:
    return [candidate_id(source) for source in sources]


def test_the_better_half_goes_on_until_two_are_left() -> None:
    speeds: dict[str, float | None] = {f"k{n}": 1.0 + n / 100 for n in range(16)}
    found, times = run(speeds)
    assert list(found.left) == names(["k15", "k14"])
    assert [(one.entered, one.cases) for one in found.rounds] == [(16, 4), (8, 7), (4, 14)]
    assert [len(one.dropped) for one in found.rounds] == [8, 4, 2]
    assert found.order == names([f"k{n}" for n in range(15, -1, -1)])
    assert found.timings == 16 * 4 + 8 * 3 + 4 * 7 == sum(count for _, count in times.asked)
    assert found.timings < 16 * len(TASK.bench)


def test_what_fails_is_dropped_and_never_comes_back() -> None:
    found, times = run({"a": 1.1, "broken": None, "b": 1.2, "c": 1.3}, kept=1)
    assert list(found.left) == names(["c"])
    failed = [one for done in found.rounds for one in done.dropped if one.failed]
    assert [(one.candidate, one.failed) for one in failed] == [(*names(["broken"]), "build_failed")]
    assert names(["broken"])[0] not in found.order
    assert [source for source, _ in times.asked].count("broken") == 1


def test_nothing_is_timed_where_nothing_has_to_be_dropped() -> None:
    found, times = run({"a": 1.0, "b": 1.1})
    assert (found.rounds, list(found.left), times.asked) == ((), names(["a", "b"]), [])
    assert run({})[0].left == ()


def test_all_failing_leaves_none() -> None:
    found, _ = run({"a": None, "b": None, "c": None})
    assert found.left == () and found.order == []


@pytest.mark.parametrize("candidates", [1, 2, 3, 5, 16, 300])
@pytest.mark.parametrize("cases", [1, 2, 5, 14])
@pytest.mark.parametrize("kept", [1, 2])
def test_rounds_halve_candidates_and_end_with_all_cases(
    candidates: int, cases: int, kept: int
) -> None:
    rounds = list(schedule(candidates, cases, kept))
    assert rounds[-1] == (kept, cases)
    assert len(rounds) <= max(1, math.ceil(math.log2(candidates)))
    assert all(until >= min(2, cases) for _, until in rounds)
    assert sorted(rounds, key=lambda one: (-one[0], one[1])) == rounds


def test_each_beginning_of_the_cases_is_a_sample_of_sizes() -> None:
    order = spread(TASK, TASK.bench)
    assert sorted(map(str, order)) == sorted(map(str, TASK.bench))
    sizes = sorted(TASK.least_bytes(case) for case, _ in TASK.bench)
    first = sorted(sizes.index(TASK.least_bytes(case)) for case, _ in order[:4])
    assert first[0] < len(sizes) // 3 and first[-1] > len(sizes) // 2
