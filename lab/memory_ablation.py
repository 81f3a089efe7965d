"""Whether a memory of other tasks helps: `python -m lab.memory_ablation MODELS RUN... --out DIR`.

Fixed before any run, and not changed afterwards:

- Tasks: six, each with a recorded run among RUN. Leave one out: the memory of a task holds the
  cards of all RUN but those of this task.
- Compared: with that memory, and without. Strategy beam:2x2, the same MODELS, device virtual, the
  same number of evaluations, three repeats of each; a pair has the same seed of the judge.
- First endpoint: evaluations until 95 % of the known best is reached, on the logarithm of the
  ratio: the known best of a task is the highest confirmed ratio of its RUN and of these runs. A run
  that never gets there counts with one evaluation more than it had.
- Second endpoint: the confirmed ratio at the end; 1 without a winner.
- Figure: the mean over tasks and repeats of log2(without / with) of the first endpoint, and of
  log2(with / without) of the second: above 0 the memory helps. Interval: 95 %, by bootstrap over
  tasks, then over their repeats, 10,000 draws, seed 0. An interval that holds 0 is published as
  "too few to tell".

36 runs: with live models they cost hours and dollars, so nothing else starts them. A run that is
there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_chat import run
from astra_chat.agents.memory_cards import MemoryCard
from astra_chat.memory.cards import cards_of
from astra_chat.memory.file import OFF, merged, write_memory
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.transcript.summary import RunSummary, summarize
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

TASKS, REPEATS, STRATEGY = 6, 3, "beam:2x2"
EVALUATIONS = 13
"""Each run makes so many, the baseline's and the confirmation's included."""
REACHED = 0.95
DRAWS = 10_000
NOT_RUN = (None, "refused", "build_failed")


@dataclass(frozen=True)
class Course:
    """One run, with the memory or without it."""

    task: str
    repeat: int
    memory: bool
    ratios: tuple[float, ...]
    """The best ratio of the search after each evaluation of a candidate; 1 before any gain."""
    confirmed: float
    """The winner's confirmed ratio; 1 without one."""


def course_of(summary: RunSummary, repeat: int, memory: bool) -> Course:
    attempts = [attempt for one in summary.rounds for attempt in one.attempts]
    best, ratios = 1.0, list[float]()
    for attempt in attempts:
        if attempt.verdict not in NOT_RUN:
            best = max(best, attempt.ratio or 0.0)
            ratios.append(best)
    winner = summary.best
    confirmed = winner.ratio if winner is not None and winner.confirmed else 1.0
    return Course(summary.task, repeat, memory, tuple(ratios), confirmed)


def evaluations_to(course: Course, known_best: float) -> int:
    """Evaluations until 95 % of the known best, on the logarithm; one more than there were where
    that was never reached."""
    goal = REACHED * math.log(known_best)
    reached = (n for n, ratio in enumerate(course.ratios, 1) if math.log(ratio) >= goal)
    return next(reached, len(course.ratios) + 1)


def differences(
    courses: Sequence[Course], known: Mapping[str, float]
) -> dict[str, list[tuple[float, float]]]:
    """Returns by task a pair for each repeat: evaluations saved by the memory, and its gain,
    both as log2."""
    by = {(one.task, one.repeat, one.memory): one for one in courses}
    found: dict[str, list[tuple[float, float]]] = {}
    for task, repeat, memory in by:
        if not memory or (task, repeat, False) not in by:
            continue
        pair = by[task, repeat, True], by[task, repeat, False]
        best = max(known[task], *(one.confirmed for one in courses if one.task == task))
        taken = [evaluations_to(one, best) for one in pair]
        gained = [one.confirmed for one in pair]
        row = math.log2(taken[1] / taken[0]), math.log2(gained[0] / gained[1])
        found.setdefault(task, []).append(row)
    return found


def interval(rows: Mapping[str, Sequence[float]]) -> tuple[float, float, float]:
    """Mean, and the ends of its 95 % interval, by bootstrap over tasks, then over repeats."""
    drawn, tasks = random.Random(0), list(rows.values())
    means = []
    for _ in range(DRAWS):
        chosen = drawn.choices(tasks, k=len(tasks))
        picked = [drawn.choices(one, k=len(one)) for one in chosen]
        means.append(statistics.fmean(statistics.fmean(one) for one in picked))
    ends = statistics.quantiles(means, n=40)
    return statistics.fmean(statistics.fmean(one) for one in tasks), ends[0], ends[-1]


def conclusion(name: str, rows: Mapping[str, Sequence[float]]) -> str:
    """The line that is published, whatever it says."""
    mean, low, high = interval(rows)
    verdict = "too few to tell" if low <= 0 <= high else ("helps" if low > 0 else "harms")
    pairs = sum(map(len, rows.values()))
    return (
        f"{name}: {2**mean:.3f}x ({2**low:.3f} to {2**high:.3f}), {pairs} pairs of"
        f" {len(rows)} tasks: {verdict}"
    )


def memory_without(task: str, cards: Mapping[str, Sequence[MemoryCard]], file: Path) -> Path:
    """The memory of all other tasks."""
    others = [card for name, own in cards.items() if name != task for card in own]
    write_memory(file, merged([], others))
    return file


def ablate(models: str, runs: Sequence[Path], out: Path) -> list[Course]:
    """All runs, and their courses."""
    cards: dict[str, list[MemoryCard]] = {}
    for path in runs:
        for card in cards_of(path):
            cards.setdefault(card.task, []).append(card)
    if len(cards) != TASKS:
        raise BadInput(f"{len(cards)} tasks have a confirmed run among these: {TASKS} are compared")
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for name in cards:
        file = memory_without(name, cards, out / f"without-{name}.toml")
        for repeat in range(REPEATS):
            for memory in (True, False):
                folder = out / f"{name}-{repeat}-{'with' if memory else 'without'}"
                summary = _run(models, find_task(name), folder, file if memory else None, repeat)
                found.append(course_of(summary, repeat, memory))
    return found


def _run(models: str, task: Task, out: Path, memory: Path | None, repeat: int) -> RunSummary:
    """The run of this folder, run now unless it is there."""
    if (out / TRANSCRIPT).is_file():
        return summarize(read(out / TRANSCRIPT).records)
    budget = f"evaluations={EVALUATIONS}"
    done = run(
        task.name,
        models=models,
        device="virtual",
        strategy=STRATEGY,
        rounds=EVALUATIONS,
        budget=budget,
        mutants=0,
        seed=f"{repeat + 1:032x}",
        memory=OFF if memory is None else memory,
        out=out,
    )
    return done.summary


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.memory_ablation")
    parser.add_argument("models")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    given = parser.parse_args()
    courses = ablate(given.models, given.runs, given.out)
    known: dict[str, float] = {}
    for card in (card for path in given.runs for card in cards_of(path)):
        known[card.task] = max(card.confirmed, known.get(card.task, 1.0))
    rows = differences(courses, known)
    document = json.dumps([asdict(one) for one in courses], indent=1)
    (given.out / "courses.json").write_text(document)
    for place, name in enumerate(("evaluations to 95 % of the known best", "final ratio")):
        print(conclusion(name, {task: [row[place] for row in own] for task, own in rows.items()}))


if __name__ == "__main__":
    main()
