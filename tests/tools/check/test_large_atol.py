"""An atol that is large beside the results is reported with the results' size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.folder import Task, Tolerance, find_task
from astra_chat.tools.task_validation import large_atol


def made(folder: Path, task: Task, sizes: tuple[float, ...]) -> list[OracleCase]:
    """Oracle cases of rmsnorm, the results of each around one size, a third of them zeros."""
    usual = [c for c in task.check if c.values == "normal" and c.dtype == "float16"]
    cases = [case for case in usual if task.least_results(case) > 2]
    found = []
    for place, (case, size) in enumerate(zip(cases, sizes, strict=False)):
        files = folder / str(place)
        files.mkdir()
        (out,) = (arg for arg in task.args if arg.written)
        count = int(np.prod(out.shape_of(case)))
        results = np.where(np.arange(count) % 3 == 0, 0.0, -size)
        (files / f"{out.name}.expected").write_bytes(results.tobytes())
        found.append(OracleCase(case, files, files))
    assert len(found) == len(sizes)
    return found


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (
            (1.0, 2e-4),
            "5 times the median result 0.0002",
        ),
        ((0.05, 1.0), "2% of the median result 0.05"),
    ],
)
def test_a_large_atol_is_named_with_the_smallest_median(
    tmp_path: Path, sizes: tuple[float, ...], words: str
) -> None:
    task = find_task("rmsnorm")
    (line,) = large_atol(task, made(tmp_path, task, sizes))
    assert ", float16: atol 0.001 is " in line and words in line
    assert ("alone would accept zeros" in line) == (min(sizes) < 1e-3)
    assert line.endswith(f"use {min(sizes) / 100:.0e} or less")


def test_an_atol_that_fits_or_that_rtol_covers_is_not_named(tmp_path: Path) -> None:
    task = find_task("rmsnorm")
    cases = made(tmp_path, task, (1.0, 0.2))
    assert large_atol(task, cases) == []
    coarse = {name: Tolerance(rtol=0.0625, atol=2e-2) for name in task.tolerance}
    assert large_atol(task.model_copy(update={"tolerance": coarse}), cases) == []
