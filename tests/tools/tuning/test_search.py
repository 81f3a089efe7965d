"""Tuning on the virtual GPU: the order, what is judged, and the winner."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.search import tune
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.types import Timed

KERNEL = (Path(__file__).parent / "tunable.cu").read_text()


@pytest.mark.second_tier
def test_the_best_point_is_ranked_judged_and_confirmed() -> None:
    """4,096 threads are no block, and more than 8 elements a thread lose time."""
    source = KERNEL.replace("tune: 64 128 512", "tune: 64 4096").replace("tune: 2 4 8", "tune: 8")
    space = read_space(source.replace("<= 2048", "<= 4096"))
    told: list[str] = []
    with Judge(find_task("silu_and_mul"), pick_device("virtual"), entropy=Entropy("7")) as judge:
        report = tune(
            judge,
            space,
            most_points=10,
            judged=3,
            halving=True,
            tell=lambda *said: told.append(said[0]),
        )
    by_values = {tuple(point.values.values()): point for point in report.points}
    assert set(by_values) == {(256, 1), (256, 8), (64, 1), (64, 8), (4096, 1)}
    assert by_values[4096, 1].estimated_ratio is None and by_values[4096, 1].failed
    assert by_values[256, 1].estimated_ratio > (by_values[64, 8].estimated_ratio or 0)  # type: ignore[operator]
    judged = [point for point in report.points if point.evaluation]
    assert judged == list(report.points[: len(judged)])
    assert (256, 1) in {tuple(point.values.values()) for point in judged}, "the start is judged"
    assert report.confirmation is not None and report.confirmation.confirms
    assert isinstance(report.confirmation.outcome, Timed)
    assert report.best == judged[0].values and report.source == space.at(report.best)
    assert report.start_ratio == by_values[256, 1].ratio
    assert report.halving is not None
    (only,) = report.halving.rounds
    assert (only.entered, only.cases, only.timings, len(only.dropped)) == (3, 5, 15, 1)
    assert "then dropped" in report.halving.dropped_at(only.dropped[0].candidate)
    timed = [one.ratio for one in report.points if one.candidate in report.halving.left]
    assert report.points[0].candidate == report.halving.left[0] and None not in timed
    assert {"ranked on the virtual GPU", "measured on 5 of 5 cases", "judged"} == set(told)
