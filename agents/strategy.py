"""Search strategies: which candidate the next plan changes, and how many kernels a plan gets.

All are pure functions of what was tried so far; a transcript names its strategy in the request.
`paper` is the chain of arXiv 2509.07506; `tree` chooses by upper confidence bounds (UCT: Kocsis and
Szepesvari, ECML 2006), where changing a candidate once more competes with changing one of its
children; `single` is `best` with one agent, the paper's ablation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import Field

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.types import Timed, Value
from astra_chat.tools.wording import did_you_mean

Kind = Literal["best", "paper", "beam", "tree", "single"]
FORMS = "best, paper, beam:K, beam:KxN, tree or single"
MAX_PARENTS, MAX_CANDIDATES = 16, 8
EXPLORATION = 0.5
"""Weight of candidates that were seldom changed; a gain of 2x counts as 1."""


class Strategy(Value):
    """How a run searches."""

    kind: Kind = "best"
    parents: int = Field(default=1, ge=1, le=MAX_PARENTS)
    """beam: number of best candidates that plans change in turn."""
    candidates: int = Field(default=1, ge=1, le=MAX_CANDIDATES)
    """Kernels per plan; all are built at the same time, and each is evaluated."""

    def __str__(self) -> str:
        if self.kind != "beam":
            return self.kind
        return f"beam:{self.parents}" + (f"x{self.candidates}" if self.candidates > 1 else "")


def parse_strategy(text: str) -> Strategy:
    """Raises ValueError, which names the strategies."""
    for kind in ("best", "paper", "tree", "single"):
        if text == kind:
            return Strategy(kind=kind)
    match = re.fullmatch(r"beam:(\d+)(?:x(\d+))?", text)
    if match is None:
        hint = did_you_mean(text.partition(":")[0], get_args(Kind))
        raise ValueError(f"use {FORMS}{hint}")
    parents, candidates = int(match[1]), int(match[2] or 1)
    if not (1 <= parents <= MAX_PARENTS and 1 <= candidates <= MAX_CANDIDATES):
        raise ValueError(f"1 to {MAX_PARENTS} parents, 1 to {MAX_CANDIDATES} candidates per plan")
    return Strategy(kind="beam", parents=parents, candidates=candidates)


@dataclass(frozen=True)
class Tried:
    """A candidate, or a round without one, as the search tree has it."""

    evaluation: Evaluation | None
    parent: int
    """Index of what its plan changed; the baseline, at 0, is its own parent."""
    accepted: bool
    """Faster than the baseline, where estimated by the estimate itself, and not rejected by a
    human."""

    @property
    def correct(self) -> bool:
        return self.evaluation is not None and isinstance(self.evaluation.outcome, Timed)

    @property
    def ratio(self) -> float:
        """Over the baseline; 0 where it was not timed."""
        outcome = self.evaluation.outcome if self.evaluation else None
        return outcome.ratio if isinstance(outcome, Timed) else 0.0


def choose_parent(strategy: Strategy, tried: Sequence[Tried], rounds: int) -> int:
    """Index in `tried`, whose first is the baseline, of what the next plan changes.

    `rounds`: plans made before it.
    """
    return CHOICES[strategy.kind](strategy, tried, rounds)


def named(tried: Sequence[Tried], candidate: str) -> tuple[int, Evaluation] | None:
    """The index and the evaluation of a correct candidate: any may be a plan's parent."""
    for index, one in enumerate(tried if candidate else ()):
        if one.correct and one.evaluation and one.evaluation.candidate == candidate:
            return index, one.evaluation
    return None


def _best(strategy: Strategy, tried: Sequence[Tried], rounds: int) -> int:
    return _ranked(tried)[0]


def _last(strategy: Strategy, tried: Sequence[Tried], rounds: int) -> int:
    """The last correct candidate, faster or not."""
    return max(index for index, one in enumerate(tried) if one.correct or index == 0)


def _beam(strategy: Strategy, tried: Sequence[Tried], rounds: int) -> int:
    """The best few in turn. The baseline and each correct candidate may be among them."""
    correct = [0, *(i for i, one in enumerate(tried) if i and one.correct)]
    best = _in_order(tried, correct)[: strategy.parents]
    return best[rounds % len(best)]


def _tree(strategy: Strategy, tried: Sequence[Tried], rounds: int) -> int:
    """Down from the baseline along the greatest upper confidence bound."""
    children: list[list[int]] = [[] for _ in tried]
    for index, one in enumerate(tried[1:], 1):
        children[one.parent].append(index)
    visits, worth = [1] * len(tried), [_gain(one) for one in tried]
    for index in range(len(tried) - 1, 0, -1):
        visits[tried[index].parent] += visits[index]
        worth[tried[index].parent] += worth[index]

    node = 0
    while True:
        here = _bound(_gain(tried[node]), 1 + len(children[node]), visits[node])
        below = [
            (_bound(worth[child] / visits[child], visits[child], visits[node]), -child)
            for child in children[node]
            if tried[child].correct
        ]
        if not below or max(below)[0] <= here:
            return node
        node = -max(below)[1]


def _bound(mean: float, visits: int, total: int) -> float:
    return mean + EXPLORATION * math.sqrt(math.log(total + 1) / visits)


def _gain(one: Tried) -> float:
    """log2 of the ratio within 0 and 1; 0 for a candidate that is wrong or slower."""
    return min(1.0, math.log2(one.ratio)) if one.ratio > 1 else 0.0


def _ranked(tried: Sequence[Tried]) -> list[int]:
    """The accepted ones, best first, then the baseline."""
    accepted = [index for index, one in enumerate(tried) if one.accepted]
    return [*_in_order(tried, accepted), 0]


def _in_order(tried: Sequence[Tried], some: Sequence[int]) -> list[int]:
    """Some of them from the highest ratio to the lowest, before all the best of those that were
    timed: where memory counts, that is another."""
    order = sorted(some, key=lambda index: (-tried[index].ratio, index))
    outcomes = [(i, one.outcome) for i in order if (one := tried[i].evaluation)]
    timed = [(i, outcome) for i, outcome in outcomes if isinstance(outcome, Timed)]
    place = best_of([outcome for _, outcome in timed])
    first = [] if place is None else [timed[place][0]]
    return [*first, *(i for i in order if i not in first)]


CHOICES: dict[Kind, Callable[[Strategy, Sequence[Tried], int], int]] = {
    "best": _best,
    "single": _best,
    "paper": _last,
    "beam": _beam,
    "tree": _tree,
}
