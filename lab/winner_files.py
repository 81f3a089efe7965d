"""Sources of the live runs' winners, one file for a task and a kind of GPU:
`python -m lab.winner_files RUN... -o FOLDER`, for `lab.baselines measure --winners FOLDER`.

RUN is what live_runs takes. To read all transcripts takes half a minute, which a GPU machine need
not spend.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from lab.baselines.beside import winner_file
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, fastest_run, gpus_of, load
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


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.winner_files")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    for path in write_winners(load(given.runs), given.out):
        print(path)


if __name__ == "__main__":
    main()
