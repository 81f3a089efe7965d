"""How far the search has come: what the next plan goes on from, and whether it is worth one."""

from __future__ import annotations

from astra_chat.agents import run_state
from astra_chat.agents.run_state import Attempt, Counted, Thread
from astra_chat.agents.strategy import Strategy, Tried, choose_parent
from astra_chat.agents.turns import Kernel, Plan, RunRequest, Speaker
from astra_chat.tools.types import BuildReport, Evaluation, Timed


def strategy(thread: Thread) -> Strategy:
    """As the user's commission has it."""
    return next((asked.strategy for asked in run_state.turns_of(thread, RunRequest)), Strategy())


def parent(thread: Thread) -> Evaluation | None:
    """What the plan changes whose kernels are being written, else the next plan."""
    writing = bool(thread) and isinstance(thread[-1].payload, Plan | Kernel)
    return parent_of(thread, run_state.rounds_begun(thread) + (0 if writing else 1))


def parent_of(thread: Thread, number: int) -> Evaluation | None:
    """What the plan of a round, counted from 1, changes by the run's strategy.

    Asked in every turn, so what earlier plans changed is worked out for a tree alone.
    """
    first, searches = run_state.baseline(thread), strategy(thread)
    if first is None or searches.kind == "tree":
        return next(iter(parents(thread, number)[-1:]), None)
    accepted = run_state.counted(thread)
    attempts = [a for one in run_state.rounds(thread)[: number - 1] for a in one.attempts]
    tried = [Tried(first, 0, accepted=False), *(_tried(a, 0, accepted) for a in attempts)]
    return _evaluation(tried, choose_parent(searches, tried, number - 1))


def parents(thread: Thread, number: int) -> list[Evaluation]:
    """The same for every round up to this one; empty before the baseline was judged."""
    first = run_state.baseline(thread)
    if first is None:
        return []
    searches, accepted = strategy(thread), run_state.counted(thread)
    tried = [Tried(first, 0, accepted=False)]
    found = []
    for one in run_state.rounds(thread)[: number - 1]:
        chosen = choose_parent(searches, tried, one.number - 1)
        found.append(_evaluation(tried, chosen))
        tried += [_tried(attempt, chosen, accepted) for attempt in one.attempts] or [
            Tried(None, chosen, accepted=False)
        ]
    return [*found, _evaluation(tried, choose_parent(searches, tried, number - 1))]


def made_of(thread: Thread, speaker: Speaker) -> str:
    """Candidate that this speaker's next kernel starts from; "" before the baseline was judged.

    A human edits what was shown last, a repair changes the kernel before it, and all others change
    what their plan goes on from.
    """
    if speaker == "human":
        shown = [t.payload for t in thread if isinstance(t.payload, BuildReport | Evaluation)]
        return shown[-1].candidate if shown else ""
    rounds = run_state.rounds(thread)
    if speaker != "coder" and rounds and rounds[-1].attempts:
        return rounds[-1].attempts[-1].kernel.candidate
    found = parent_of(thread, run_state.rounds_begun(thread))
    return found.candidate if found else ""


def _evaluation(tried: list[Tried], index: int) -> Evaluation:
    evaluation = tried[index].evaluation
    assert evaluation is not None, "no strategy goes on from what was not judged"
    return evaluation


def _tried(attempt: Attempt, parent: int, accepted: Counted) -> Tried:
    found = accepted.get(attempt.kernel.candidate)
    return Tried(found[0] if found else attempt.evaluation, parent, accepted=found is not None)


def without_gain(thread: Thread) -> int:
    """Rounds in a row, the last ones, that brought no new best."""
    found = run_state.best(thread)
    name = found[0].candidate if found else None
    gained = [
        one.number
        for one in run_state.rounds(thread)
        if any(attempt.kernel.candidate == name for attempt in one.attempts)
    ]
    return run_state.rounds_begun(thread) - (gained[0] if gained else 0)


def percent_of_limit(timed: Timed) -> float:
    """Share of the physical limit, weighted over the cases."""
    weights = sum(case.weight for case in timed.cases)
    return sum(case.weight * case.percent_of_limit for case in timed.cases) / weights
