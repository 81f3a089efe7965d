"""Seconds of evaluations on a GPU, step by step:
`python -m lab.measure_evaluations [TASK ...] --device cuda -o EVALUATIONS.jsonl`.

Per task one judge evaluates, in this order, the winners of the recorded live runs over SGLang's
kernel of 2025, up to `--count` of them, and a wrong kernel of tests/attacks; then it confirms the
first winner. The first evaluation bears what a judge does once. A line of JSON for each goes to the
file at once; at the end stand the medians. To compare two states of the judge, run this file by its
path with PYTHONPATH naming the other checkout, in the same call of a machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from astra_chat.tools.descriptions import describe
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Device, Timed
from lab.commands import one_line_errors
from lab.live_runs import load
from lab.winners import fastest, source_of

TASKS = ("silu_and_mul", "fused_add_rmsnorm", "topk_softmax", "moe_align_block_size")
RUNS = Path(__file__).resolve().parents[1] / "transcripts" / "recorded.tar.xz" / "live"
FIRST, NEXT, WRONG, CONFIRMATION = "first", "next", "wrong", "confirmation"


@dataclass(frozen=True, kw_only=True)
class MeasuredSteps:
    """One evaluation of a kernel."""

    task: str
    kind: str
    """FIRST, NEXT, WRONG or CONFIRMATION."""
    candidate: str
    outcome: str
    ratio: float | None
    seconds: float
    steps_s: dict[str, float]
    """Seconds of each step, waits for the GPU left out."""
    held_s: float
    """Seconds in which it held the GPU."""


def winners_of(task: str, count: int) -> list[str]:
    """Returns sources of different winners of the task's recorded live runs, the newest first."""
    paths = [path for path in expanded([RUNS]) if path.name.startswith(f"{task}-sglang")]
    found = dict[str, str]()
    for run in reversed(load(paths)):
        speed = fastest(run.summary)
        if speed and run.summary.task == task and speed.candidate not in found:
            found[speed.candidate] = source_of(run.path, speed.candidate)
    return list(found.values())[:count]


def wrong_kernel_of(task: str) -> str | None:
    """Returns the first wrong kernel of the task; None where tests/attacks has none."""
    from tests.attacks.wrong_kernels import wrong_kernels

    return next((one.source for one in wrong_kernels() if one.task == task), None)


def measured(task: str, device: Device, count: int, *, trust: bool) -> Iterator[MeasuredSteps]:
    """Yields the evaluations of one judge."""
    sources = winners_of(task, count)
    wrong = wrong_kernel_of(task)
    with Judge(find_task(task), device, trust=trust) as judge:
        for place, source in enumerate(sources):
            kind = NEXT if place else FIRST
            yield _timed(task, kind, partial(judge.evaluate, source))
        if wrong:
            yield _timed(task, WRONG, partial(judge.evaluate, wrong))
        confirm = partial(judge.evaluate, sources[0], fresh_seeds=True)
        yield _timed(task, CONFIRMATION, confirm)


def _timed(task: str, kind: str, evaluate: Callable[[], Evaluation]) -> MeasuredSteps:
    start = time.perf_counter()
    found = evaluate()
    seconds = time.perf_counter() - start
    steps = dict[str, float]()
    for step in found.steps:
        steps[step.name] = steps.get(step.name, 0.0) + step.seconds - step.waited_s
    outcome = found.outcome
    return MeasuredSteps(
        task=task,
        kind=kind,
        candidate=found.candidate,
        outcome=describe(outcome).splitlines()[0][:200],
        ratio=outcome.ratio if isinstance(outcome, Timed) else None,
        seconds=round(seconds, 3),
        steps_s={name: round(value, 3) for name, value in steps.items()},
        held_s=round(sum(step.gpu.held_s for step in found.steps if step.gpu), 3),
    )


def table(found: Sequence[MeasuredSteps]) -> str:
    """Returns medians over tasks of the seconds of each kind of evaluation, by step."""
    lines = []
    for kind in (FIRST, NEXT, WRONG, CONFIRMATION):
        some = [one for one in found if one.kind == kind]
        if not some:
            continue
        names = list(dict.fromkeys(name for one in some for name in one.steps_s))
        parts = ", ".join(
            f"{name} {statistics.median(one.steps_s.get(name, 0.0) for one in some):.2f}"
            for name in names
        )
        whole = statistics.median(one.seconds for one in some)
        held = statistics.median(one.held_s for one in some)
        lines.append(
            f"{kind}: {whole:.2f} s (median of {len(some)}); {parts}; held the GPU {held:.2f}"
        )
    return "\n".join(lines)


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.measure_evaluations")
    parser.add_argument("tasks", nargs="*", metavar="TASK", default=TASKS)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or virtual")
    parser.add_argument("--count", type=int, default=4, help="maximum number of winners per task")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--trust", action="store_true", help="run kernels even if they cannot be isolated"
    )
    given = parser.parse_args()
    device, found = pick_device(given.device), list[MeasuredSteps]()
    with given.out.open("a") as file:
        for task in given.tasks:
            for one in measured(task, device, given.count, trust=given.trust):
                found.append(one)
                line = json.dumps(asdict(one))
                file.write(line + "\n")
                file.flush()
                print(line, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
