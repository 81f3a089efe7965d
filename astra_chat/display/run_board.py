"""The live table of a run: its rounds, what is being done, and how much is left. All of it is
derived from the run's state."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from astra_chat.agents.rounds import Attempt, failed
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import Baseline, Build, Confirm, Run, Score, Tune, next_step
from astra_chat.agents.turns import Speaker
from astra_chat.tools.descriptions import describe, describe_build, ratio_text
from astra_chat.tools.types import Timed
from astra_chat.tools.wording import counted

LEAST_SHOWN = 3
"""Rounds that the table has at least."""


def board(state: RunState, rows: int) -> RenderableType:
    """A row for the baseline and for each candidate, the last ones where there are more than
    `rows`."""
    table = Table(box=None, pad_edge=False)
    judged = state.baseline.outcome if state.baseline else None
    speed = f"{judged.basis} speed" if isinstance(judged, Timed) else "speed"
    for name in ("round", "candidate", speed):
        table.add_column(name, no_wrap=True)
    table.add_column("plan")
    attempts = list(_attempts(state))
    best = state.best or state.best_of_search
    if state.baseline is not None:
        table.add_row("0", Text(state.baseline.candidate), "1.00x", _title("the baseline"))
    for number, title, attempt in attempts[-max(rows, LEAST_SHOWN) :]:
        name = attempt.kernel.candidate
        leads = best is not None and best[0].candidate == name and attempt.refused is None
        style = "bold green" if leads else ""
        result = Text(f"{_speed(attempt)}{', best' if leads else ''}", style)
        table.add_row(str(number), Text(name), result, _title(title))
    if state.round is not None and not state.round.attempts:
        table.add_row(str(state.round.number), "", "", _title(state.round.plan.title))
    return table


def _title(words: str) -> Text:
    """In one line, whatever room is left for it."""
    return Text(words, no_wrap=True, overflow="ellipsis")


def _attempts(state: RunState) -> Iterator[tuple[int, str, Attempt]]:
    for one in state.rounds:
        for attempt in one.attempts:
            title = f"repair of {attempt.repairs}" if attempt.repairs else one.plan.title
            yield one.number, title, attempt


def _speed(attempt: Attempt) -> str:
    """What is known of a candidate so far, in a few words."""
    if attempt.rejected is not None:
        return "rejected"
    if attempt.refused is not None:
        return "confirmation failed"
    if attempt.evaluation is not None:
        outcome = attempt.evaluation.outcome
        if isinstance(outcome, Timed):
            return f"{ratio_text(outcome.ratio)} {outcome.verdict}"
        return describe(outcome).splitlines()[0].partition(":")[0][:24]
    if attempt.build is None:
        return "written"
    return describe_build(attempt.build).partition(":")[0] if failed(attempt.build) else "built"


def doing(state: RunState, speaker: Speaker) -> str:
    """What the run does now, "judging 78c5d7c170ab (round 1 of at most 5)"."""
    step = next_step(state) if state.request is not None else None
    if speaker != "executor" or step is None:
        return f"asking the {speaker} ({_place(state, speaker)})"
    match step:
        case Score(cases=cases):
            return (
                f"scoring {counted(len(cases), 'case')} from the tester with seeded bugs; next: the"
                " baseline"
            )
        case Baseline():
            return f"judging the baseline; next: {_rounds(state)}"
        case Build(kernels=kernels):
            return f"building {kernels[0].candidate} ({_place(state)})"
        case Run(kernel=kernel):
            return f"judging {kernel.candidate} ({_place(state)})"
        case Tune(kernel=kernel):
            return f"tuning the constants of {kernel.candidate} ({_place(state)})"
        case Confirm(candidate=candidate):
            return f"confirming the winner {candidate}{_took(state, candidate)}"
        case _:
            return f"the executor is working ({_place(state)})"


def _place(state: RunState, speaker: Speaker = "executor") -> str:
    number = len(state.rounds) + (speaker == "planner")
    return f"round {number} of at most {state.limits.rounds}" if number else "before round 1"


def _rounds(state: RunState) -> str:
    return f"at most {counted(state.limits.rounds, 'round')}"


def _took(state: RunState, candidate: str) -> str:
    """How long the candidate's evaluation in the search took: the confirmation takes longer."""
    found = state.accepted.get(candidate)
    seconds = sum(step.seconds for step in found.steps) if found else 0
    return f"; its evaluation took {seconds:.0f} s" if seconds >= 1 else ""
