"""Search strategies on equal budgets: `python -m lab.compare_strategies TASK...`.

Real chats, the real judge on the virtual GPU, and a coder that draws by lot (models/drawn.py): this
compares the mechanics of search, not the quality of a model, and all times are estimates.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from astra_chat.agents.strategy import parse_strategy
from astra_chat.models.run_models import RunModels
from astra_chat.models.script import load_script
from astra_chat.models.spec import ROLES
from astra_chat.session.request import Request
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case
from astra_chat.transcript.options import RunOptions
from lab.commands import one_line_errors
from lab.random_models import RandomModels

STRATEGIES = ("best", "paper", "beam:3", "beam:2x2", "tree", "single")
ENOUGH_ROUNDS = 1000


class OnceEach:
    """The judge, asked once for each source: an estimate of the same source is the same again."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._found: dict[str, Evaluation] = {}

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        return self._judge.build(source, also)

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        if source not in self._found:
            self._found[source] = self._judge.evaluate(source, extra_cases)
        return self._found[source]

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        return self._judge.score(cases, mutants, also)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        raise NotImplementedError("strategies are compared without tuning")

    def cancel(self) -> None:
        self._judge.cancel()


def pool_of(task: Task) -> dict[str, str]:
    """Every kernel of a task: its baselines and its script's, the wrong ones too."""
    files = [task.folder / name for name in TIER_FILES.values()]
    tiers = {path.name: path.read_text() for path in files if path.is_file()}
    return tiers | dict(sorted(load_script(task).sources.items()))


def course(task: Task, judge: OnceEach, words: str, seed: int, evaluations: int) -> list[float]:
    """The best ratio after each evaluation, the baseline's not counted; 1 before any gain."""
    models = RunModels("drawn", dict.fromkeys(ROLES, RandomModels(seed, pool_of(task))))
    with tempfile.TemporaryDirectory(prefix="astra-compare-") as folder:
        request = Request(
            task=task,
            device=pick_device("virtual", None),
            models=models,
            options=RunOptions(
                rounds=ENOUGH_ROUNDS,
                confirmations=0,
                mutants=0,
                strategy=parse_strategy(words),
                budget=f"evaluations={evaluations + 1}",
            ),
            folder=Path(folder) / "run",
        )
        rounds = run_request(request, judge=judge).summary.rounds
    attempts = [attempt for one in rounds for attempt in one.attempts]
    ratios = [a.ratio or 0.0 for a in attempts if a.verdict not in NOT_RUN]
    best, found = 1.0, []
    for ratio in ratios[:evaluations]:
        best = max(best, ratio)
        found.append(best)
    return found


NOT_RUN = (None, "refused", "build_failed")


def compare(task: Task, seeds: int, evaluations: int) -> str:
    """A Markdown table: over the seeds, the best ratio at half of the budget and at its end."""
    lines = [
        f"## {task.name}: {evaluations} evaluations, {seeds} seeds,"
        f" a pool of {len(pool_of(task))} kernels",
        "",
        "| strategy | best at half, median | best at the end: median | lowest | highest |",
        "|---|---|---|---|---|",
    ]
    with Judge(task, pick_device("virtual", None)) as judge:
        once = OnceEach(judge)
        for words in STRATEGIES:
            courses = [course(task, once, words, seed, evaluations) for seed in range(seeds)]
            half = statistics.median(one[len(one) // 2 - 1] for one in courses)
            last = [one[-1] for one in courses]
            lines.append(
                f"| {words} | {half:.2f}x | {statistics.median(last):.2f}x | {min(last):.2f}x"
                f" | {max(last):.2f}x |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.compare_strategies")
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, default=12)
    given = parser.parse_args()
    for name in given.tasks:
        print(compare(find_task(name), given.seeds, given.evaluations), end="\n\n")


if __name__ == "__main__":
    main()
