"""Judges the winners of live runs on this machine's GPU as a confirmation does, on fresh inputs and
with the sanitizers: `python -m astra_chat.research.judge_winners FILE... -o DIR --device cuda`.

FILE is what live_results takes: transcripts, and what GPUs have said of their winners. Where a run
found none that is faster by its estimate, its fastest candidate stands for it. A winner that is
confirmed on this kind of GPU among FILE, or whose result lies in DIR, is left out, and those that
were never judged there come first. Each is written to DIR/TASK-CANDIDATE-GPU.json.gz at once. So
the command goes on where it was stopped, and commands on several GPUs (`--device cuda:1`) share one
DIR. What could not be judged is told, and ends with exit code 1; the same command judges it again.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from astra_chat.research.commands import one_line_errors
from astra_chat.research.live_results import LiveRun, load
from astra_chat.research.results import EVALUATION_SCHEMA
from astra_chat.research.winners import fastest, settled, source_of
from astra_chat.tools.descriptions import describe
from astra_chat.tools.errors import AstraError
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import CASE_LISTS, Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.whole_file import write_whole
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Device


def to_judge(runs: Sequence[LiveRun], device: Device) -> list[LiveRun]:
    """Runs with a candidate that no GPU of this kind has confirmed, one a candidate, those never
    judged there first."""
    found: dict[tuple[str, str], LiveRun] = {}
    for run in runs:
        speed, known = fastest(run.summary), run.measured.get(device.name)
        if speed and not (known and settled(known)):
            found.setdefault((run.summary.task, speed.candidate), run)
    return sorted(found.values(), key=lambda run: device.name in run.measured)


def result_file(run: LiveRun, device: Device, out: Path) -> Path:
    speed = fastest(run.summary)
    assert speed is not None
    return out / f"{run.summary.task}-{speed.candidate}-{device.spec}.json.gz"


def judge_winner(run: LiveRun, device: Device, cases: str | None, trust: bool) -> Evaluation:
    """Raises AstraError where the machine or we are at fault."""
    speed = fastest(run.summary)
    assert speed is not None
    task, tier = find_task(run.summary.task), run.summary.options.tier
    with Judge(task, device, tier=tier, cases=cases, trust=trust) as judge:
        return judge.evaluate(source_of(run.path, speed.candidate), fresh_seeds=True)


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Whether it is ours to make: no result is there, and no other process is at it."""
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield not path.exists()


def judge_all(
    runs: Sequence[LiveRun], device: Device, out: Path, cases: str | None, trust: bool
) -> int:
    """How many could not be judged."""
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for run in to_judge(runs, device):
        path = result_file(run, device, out)
        with _claimed(path) as ours:
            if not ours:
                continue
            try:
                found = judge_winner(run, device, cases, trust)
            except AstraError as error:
                failed += 1
                print(f"{path.name}: not judged: {error}", file=sys.stderr, flush=True)
                continue
            document = {"schema": EVALUATION_SCHEMA, "evaluation": found.model_dump(mode="json")}
            write_whole(path, gzip.compress(json.dumps(document).encode(), mtime=0))
            print(f"{path.name}: {describe(found.outcome)}", flush=True)
    return failed


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m astra_chat.research.judge_winners")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or virtual")
    parser.add_argument("--cases", choices=CASE_LISTS, help="default: bench on a GPU, else demo")
    parser.add_argument("--trust", action="store_true", help="also where nothing isolates kernels")
    given = parser.parse_args()
    device = pick_device(given.device)
    sys.exit(judge_all(load(given.files), device, given.out, given.cases, given.trust) > 0)


if __name__ == "__main__":
    main()
