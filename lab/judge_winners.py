"""Judges the winners of live runs on this machine's GPU as a confirmation does, on fresh inputs and
with the sanitizers: `python -m lab.judge_winners FILE... -o DIR --device cuda`.

FILE is what live_runs takes: transcripts, and what GPUs have said of their winners. Where a run
found none that is faster by its estimate, its fastest candidate stands for it. A winner that is
confirmed on this kind of GPU among FILE, or whose result lies in DIR, is left out, and those that
were never judged there come first. Each is written to DIR/TASK-CANDIDATE-GPU.json.gz at once. So
the command goes on where it was stopped, and commands on several GPUs (`--device cuda:1`) share one
DIR, each with all winners of one task and start at a time. What could not be judged is told, and
ends with exit code 1; the same command judges it again.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.descriptions import describe
from astra_chat.tools.judge import CASE_LISTS, Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.files import locked
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Device
from astra_vgpu.ground.errors import AstraError
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, load
from lab.results import write_evaluation
from lab.winners import fastest, settled, source_of


@dataclass(frozen=True)
class UnconfirmedWinner:
    """A candidate that no GPU of this kind has confirmed."""

    task: str
    tier: str
    candidate: str
    transcript: Path
    judged_there: bool
    """A GPU of this kind has judged it, if not as a winner."""

    def result(self, device: Device, out: Path) -> Path:
        return out / f"{self.task}-{self.candidate}-{device.spec}.json.gz"


def to_judge(runs: Sequence[LiveRun], device: Device) -> list[list[UnconfirmedWinner]]:
    """Winners of one task from one start together, which one judge serves; first where one was
    never judged there, then where there are most."""
    groups: dict[tuple[str, str], dict[str, UnconfirmedWinner]] = defaultdict(dict)
    for run in runs:
        speed, known = fastest(run.summary), run.measured.get(device.name)
        if speed and not (known and settled(known)):
            task, tier = run.summary.task, run.summary.options.tier
            one = UnconfirmedWinner(task, tier, speed.candidate, run.path, known is not None)
            groups[task, tier].setdefault(one.candidate, one)
    found = [sorted(some.values(), key=lambda one: one.judged_there) for some in groups.values()]
    return sorted(found, key=lambda some: (some[0].judged_there, -len(some)))


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Whether no other process is at it; none comes until this one is done."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path, wait=False))
        except BlockingIOError:
            yield False
            return
        yield True


def judge_all(
    runs: Sequence[LiveRun], device: Device, out: Path, cases: str | None, trust: bool
) -> int:
    """How many could not be judged."""
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for some in to_judge(runs, device):
        lock = out / f"{some[0].task}-{some[0].tier}-{device.spec}.lock"
        with _claimed(lock) as ours:
            left = [one for one in some if ours and not one.result(device, out).exists()]
            if left:
                task, tier = find_task(left[0].task), left[0].tier
                with Judge(task, device, tier=tier, cases=cases, trust=trust) as judge:
                    failed += sum(not _judge(judge, one, out) for one in left)
    return failed


def _judge(judge: Judge, winner: UnconfirmedWinner, out: Path) -> bool:
    """Write what is found; False where the machine or we are at fault."""
    path = winner.result(judge.device, out)
    try:
        source = source_of(winner.transcript, winner.candidate)
        found = judge.evaluate(source, fresh_seeds=True)
    except AstraError as error:
        print(f"{path.name}: not judged: {error}", file=sys.stderr, flush=True)
        return False
    write_evaluation(path, found)
    print(f"{path.name}: {describe(found.outcome)}", flush=True)
    return True


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.judge_winners")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or virtual")
    parser.add_argument("--cases", choices=CASE_LISTS, help="default: bench on a GPU, else demo")
    parser.add_argument(
        "--trust", action="store_true", help="run kernels even if they cannot be isolated"
    )
    given = parser.parse_args()
    device = pick_device(given.device)
    sys.exit(judge_all(load(given.files), device, given.out, given.cases, given.trust) > 0)


if __name__ == "__main__":
    main()
