"""Sources of the live runs' winners, one file for a task and a kind of GPU.

To read all transcripts takes half a minute, which a GPU machine need not spend.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.baselines.beside import winner_file
from lab.live_runs import LiveRun, fastest_run, gpus_of
from lab.winners import fastest, source_of


def write_winners(runs: Sequence[LiveRun], out: Path) -> list[Path]:
    """Write the fastest winner from `sglang` of each task on each GPU that timed one."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for gpu in gpus_of(runs):
        for task in sorted({run.summary.task for run in runs}):
            run = fastest_run(runs, task, gpu)
            speed = fastest(run.summary) if run else None
            if run is None or speed is None:
                continue
            path = winner_file(out, task, run.measured[gpu].device.spec)
            path.write_text(source_of(run.path, speed.candidate))
            paths.append(path)
    return paths
