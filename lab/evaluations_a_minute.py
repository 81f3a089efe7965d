"""Evaluations a minute of one GPU's worker:
`python -m lab.evaluations_a_minute [TASK ...] --device cuda --workers 4 --seconds 120`.

Winners of the recorded live runs become jobs, in turns of tasks, each with a seed of its own;
`astra-chat judge work` judges them as a run's jobs, and is stopped after `--seconds`. The rate is
that of results from the first to the last one, so that starting up does not count.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

from astra_chat.detached.asking import wanted_of
from astra_chat.detached.jobs import Job, write_job
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Device, candidate_id, sha256_of
from astra_chat.transcript.run_folder import JOBS
from lab.commands import one_line_errors
from lab.measure_evaluations import TASKS, winners_of

GRACE_S = 30.0
"""What a worker gets to end its judges."""


def write_jobs(root: Path, names: Sequence[str], device: Device, count: int) -> int:
    """Write up to `count` jobs a task, one winner after the other, into runs below `root`; returns
    how many."""
    asks, entropy, made = wanted_of(device), Entropy(), 0
    jobs = []
    for name in names:
        task, sources = find_task(name), winners_of(name, count)
        files = task.files()
        chosen = [sources[place % len(sources)] for place in range(count)] if sources else []
        texts = {sha256_of(text): text for text in (*files.values(), *chosen)}
        jobs.append([(task.name, files, source, texts) for source in chosen])
    for turn in zip_longest(*jobs):
        for name, files, source, texts in filter(None, turn):
            job = Job(
                schema="astra-chat/job/2",
                run=f"rate-{name}",
                number=made,
                task=name,
                task_files={file: sha256_of(text) for file, text in files.items()},
                tier="sglang",
                timed=None,
                device=asks.device,
                source=sha256_of(source),
                extra_cases=(),
                fresh_seeds=False,
                seed=entropy.evaluation(candidate_id(source)).text,
                judge_sha256=asks.judge_sha256,
                astra=asks.astra,
            )
            write_job(root / job.run / JOBS, job, texts)
            made += 1
    return made


def work(root: Path, device: str, workers: int, seconds: float) -> None:
    """Let a worker judge the jobs below `root`, until none is open or the time is over."""
    command = [sys.executable, "-m", "astra_chat", "judge", "work", str(root), "--once"]
    worker = subprocess.Popen([*command, "--device", device, "--workers", str(workers)])
    with suppress(subprocess.TimeoutExpired):
        worker.wait(seconds)
    if worker.poll() is None:
        worker.send_signal(signal.SIGINT)
        try:
            worker.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def rate(results_s: Sequence[float]) -> str:
    """How often results came, by the times at which they did, in s."""
    first, last = min(results_s, default=0.0), max(results_s, default=0.0)
    if last <= first:
        return f"{len(results_s)} evaluations: too few for a rate"
    each = 60.0 * (len(results_s) - 1) / (last - first)
    return f"{len(results_s)} evaluations, {each:.1f} a minute from the first to the last"


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.evaluations_a_minute")
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=TASKS)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or virtual")
    parser.add_argument("--workers", type=int, default=4, help="jobs at a time")
    parser.add_argument("--count", type=int, default=16, help="jobs a task, at most")
    parser.add_argument("--seconds", type=float, default=120.0, help="when it is stopped")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="astra-rate-") as name:
        root = Path(name)
        asked = write_jobs(root, given.tasks, pick_device(given.device), given.count)
        print(f"{asked} jobs, {given.workers} at a time", flush=True)
        work(root, given.device, given.workers, given.seconds)
        print(rate([path.stat().st_mtime for path in root.rglob("result.json")]))


if __name__ == "__main__":
    main()
