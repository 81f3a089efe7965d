"""Tuning on the virtual GPU: the order, what is halved and judged, and the winner."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.tuning.search import tune
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.types import Timed
from tests.chat_samples import REFERENCE, SCALAR, TASK_TOML

OPEN = SCALAR.replace(
    "__global__",
    "constexpr int kBlocks = 4;  // tune: 1 16 64\nconstexpr int kThreads = 64;  // tune: 4096\n"
    "// require: kBlocks * kThreads <= 32768\n__global__",
    1,
).replace("<<<4, 64,", "<<<kBlocks, kThreads,")


@pytest.mark.second_tier
def test_the_best_point_is_ranked_halved_judged_and_confirmed(tmp_path: Path) -> None:
    """4,096 threads are no block, and few blocks leave a GPU idle."""
    files = {"task.toml": TASK_TOML, "reference.py": REFERENCE, "baseline.cu": SCALAR}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    space, told = read_space(OPEN), list[str]()
    device, seed = pick_device("virtual"), Entropy("7")
    with Judge(load_task(tmp_path), device, trust=True, entropy=seed) as judge:
        report = tune(
            judge,
            space,
            most_points=10,
            judged=3,
            halving=True,
            tell=lambda *said: told.append(said[0]),
        )
    by_values = {tuple(point.values.values()): point for point in report.points}
    assert set(by_values) == {(4, 64), (1, 64), (16, 64), (64, 64), (4, 4096), (1, 4096)}
    for blocks in (1, 4):
        assert by_values[blocks, 4096].estimated_ratio is None and by_values[blocks, 4096].failed
    assert report.halving is not None
    (only,) = report.halving.rounds
    assert (only.entered, only.cases, only.timings, len(only.dropped)) == (3, 1, 3, 1)
    assert only.dropped[0].candidate == by_values[4, 64].candidate
    assert "on 1 case, then dropped" in report.halving.dropped_at(only.dropped[0].candidate)
    judged = [point for point in report.points if point.evaluation]
    assert judged == list(report.points[: len(judged)])
    assert {tuple(p.values.values()) for p in judged} == {(64, 64), (16, 64), (4, 64)}
    assert report.halving.left == tuple(point.candidate for point in judged[:2])
    assert report.confirmation is not None and report.confirmation.confirms
    assert isinstance(report.confirmation.outcome, Timed)
    assert report.best == judged[0].values == {"kBlocks": 64, "kThreads": 64}
    assert report.source == space.at(report.best)
    assert report.start_ratio == by_values[4, 64].ratio
    steps = {text.split(";")[0] for text in told if not text.startswith("confirm")}
    assert steps == {"ranked on the virtual GPU", "measured on 1 of 1 case", "judged"}
    assert {"judged; next: kBlocks = 64, kThreads = 64"} < set(told)
    assert any(text.startswith("judged; kBlocks = 64, kThreads = 64: correct on") for text in told)
    assert "confirming on fresh seeds: kBlocks = 64, kThreads = 64" in told
