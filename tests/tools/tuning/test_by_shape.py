"""A choice by shape on the virtual GPU: taken where it gains on other shapes, else not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.tuning.by_shape import table_for
from astra_chat.tools.tuning.ranking import estimated_by_case
from astra_chat.tools.tuning.search import tune
from astra_chat.tools.tuning.shapes import ShapeTable
from astra_chat.tools.tuning.space import read_space
from astra_chat.tools.types import Timed
from tests.chat_samples import REFERENCE, SCALAR, WIDE_TOML

OPEN = SCALAR.replace(
    "__global__", "constexpr int kBlocks = 2;  // tune: 4096\n__global__", 1
).replace("<<<4, 64,", "<<<kBlocks, 64,")
"""Few blocks are slow on large calls, and many cost their starts on small ones."""
NEAR = ((1, 4), (1, 300), (9, 60), (64, 256))
FAR = ((1, 64), (2, 128), (1024, 256), (2048, 512))
"""Between small and large calls lies a gap in which the rule has to guess."""


@contextmanager
def judged(folder: Path, sizes: tuple[tuple[int, int], ...]) -> Iterator[Judge]:
    """The judge of a task with these timed cases."""
    cases = ", ".join(
        f'{{ rows = {rows}, d = {d}, dtype = "float32", weight = 1 }}' for rows, d in sizes
    )
    lines = [
        f"{line.split(' ')[0]} = [{cases}]" if line.startswith(("bench", "demo")) else line
        for line in WIDE_TOML.splitlines()
    ]
    (folder / "task.toml").write_text("\n".join(lines))
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(SCALAR)
    device = pick_device("virtual")
    with Judge(load_task(folder), device, trust=True, entropy=Entropy("7")) as judge:
        yield judge


def table(folder: Path, sizes: tuple[tuple[int, int], ...]) -> tuple[ShapeTable | None, str]:
    """What is found of the two points of OPEN."""
    space = read_space(OPEN)
    points = list(space.points())
    sources = [space.at(point) for point in points]
    with judged(folder, sizes) as judge:
        estimates = estimated_by_case(
            judge.task,
            judge.device,
            judge.baseline,
            sources,
            judge.weighted,
            judge.entropy.cases,
            judge.stop,
        )
        means = [0.0 if isinstance(one, str) else judge_times(one)[0] for one in estimates]
        single = means.index(max(means))
        return table_for(judge, points, sources, judge.weighted, estimates, single)


@pytest.mark.second_tier
def test_a_table_is_taken_where_it_gains_on_other_shapes_too(tmp_path: Path) -> None:
    found, source = table(tmp_path, NEAR)
    assert found is not None and found.why == "" and found.gain is not None
    assert found.gain >= found.least > 1 and len(found.held_out) >= 2
    assert (found.below, found.above) == ({"kBlocks": 2}, {"kBlocks": 4096})
    assert f"if ({found.condition}) return choice_0::doubled_0(" in source


@pytest.mark.in_full
def test_a_table_that_fits_the_tuned_shapes_only_is_not_taken(tmp_path: Path) -> None:
    found, source = table(tmp_path, FAR)
    assert found is not None and found.tuned_gain > found.least
    assert found.gain is not None and found.gain < found.least
    assert "held-out" in found.why and source == ""


@pytest.mark.in_full
def test_the_tuner_confirms_the_table_as_a_whole(tmp_path: Path) -> None:
    with judged(tmp_path, NEAR) as judge:
        report = tune(judge, read_space(OPEN), most_points=8, by_shape=True)
    assert report.by_shape is not None and not report.by_shape.why
    assert report.confirmation is not None and report.confirmation.confirms
    assert isinstance(report.confirmation.outcome, Timed) and "choice_0" in report.source
    assert report.confirmation.outcome.ratio > max(point.ratio or 0 for point in report.points)
