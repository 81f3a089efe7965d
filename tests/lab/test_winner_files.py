"""The live runs' winners as files."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import candidate_id
from lab.baselines.beside import winner_file, winner_side
from lab.live_runs import fastest_run, load
from lab.winner_files import write_winners
from lab.winners import fastest
from tests.recorded_files import LIVE

TASK = "moe_sum_reduce"
GPUS = {"h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200"}


def test_each_gpu_has_the_fastest_of_its_own(tmp_path: Path) -> None:
    runs = load(expanded([LIVE / f"further/{TASK}-*"]))
    written = write_winners(runs, tmp_path)
    assert sorted(written) == sorted(winner_file(tmp_path, TASK, spec) for spec in GPUS)
    task = find_task(TASK)
    for spec, gpu in GPUS.items():
        run = fastest_run(runs, TASK, gpu)
        side = winner_side(task, tmp_path, spec)
        assert run is not None and side is not None
        speed = fastest(run.summary)
        assert speed is not None and side.kernel.content == speed.candidate
        assert candidate_id(side.source) == speed.candidate and side.kernel.tier == "winner"
    assert winner_side(find_task("rmsnorm"), tmp_path, "h100") is None
