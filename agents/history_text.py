"""Plans, earlier rounds and predictions as a prompt shows them."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.agents.edits import lines_of
from astra_chat.agents.plan_predictions import Prediction
from astra_chat.agents.rounds import Attempt, Round
from astra_chat.agents.standing import Standing, standings
from astra_chat.agents.turns import Plan
from astra_chat.tools.descriptions import describe, number, predicted_text, ratio_text, verdict
from astra_chat.tools.language import written_in
from astra_chat.tools.text import one_line
from astra_chat.tools.timing.comparison import ESTIMATES
from astra_chat.tools.types import Basis


def round_lines(rounds: Sequence[Round]) -> list[str]:
    """Returns a line for each round: its plan and what became of its candidates, with their
    names."""
    stands = {(one.round, id(one.attempt)): one for one in standings(rounds)}
    lines = []
    for one in rounds:
        results = [_result(a, stands.get((one.number, id(a)))) for a in one.attempts]
        told = "; ".join(filter(None, results)) or "no candidate"
        told += f"; tuned: {one_line(one.tuning.words)}" if one.tuning else ""
        lines.append(f"round {one.number}, {one_line(one.plan.title)}: {told}")
    return lines


def prediction_line(one: Prediction) -> str:
    """A plan's prediction beside the result."""
    actual = "no correct kernel" if one.actual_ratio is None else ratio_text(one.actual_ratio)
    line = f"round {one.round}: predicted {predicted_text(one.predicted_ratio)}, actual {actual}"
    if one.before is None or one.after is None:
        return line
    case = f" on {one_line(one.case)}" if one.case else ""
    predicted = "" if one.moves == "unsaid" else f" (predicted: {one.moves})"
    moved = f"{number(one.before)} to {number(one.after)}"
    return f"{line}; {one_line(one.metric)} {moved}{case}{predicted}"


def _result(attempt: Attempt, standing: Standing | None) -> str:
    """The result of a candidate; empty if it was not built."""
    result = ""
    if standing:
        timed = standing.timed
        result = f"{attempt.kernel.candidate}{written_in(attempt.kernel.source)}"
        result += f" {ratio_text(timed.ratio)} ({standing.text})"
    elif attempt.evaluation:
        result = f"{attempt.speaker}: {verdict(attempt.evaluation.outcome)}"
    elif attempt.build:
        result = f"{attempt.speaker}: {verdict(attempt.build.result)}"
    if attempt.repairs and result:
        result = f"repair of {attempt.repairs}: {result}"
    if attempt.refused is not None:
        why = one_line(describe(attempt.refused.outcome))
        result = f"{result}, but it failed confirmation: {why}"
    if attempt.rejected is None:
        return result
    return f"{result}, rejected by the human: {one_line(attempt.rejected) or 'no reason given'}"


def plan_text(plan: Plan, source: str, basis: Basis | None) -> str:
    """`source`: what the plan changes; `basis`: of the run's times."""
    lines = ", ".join(map(str, lines_of(plan.anchor, source)))
    where = f"line {lines}" if lines else "not found in the source to change"
    anchored = f"Where: {one_line(plan.anchor)} ({where})\n" if plan.anchor.strip() else ""
    risk = f"\nRisk: {one_line(plan.risk)}" if plan.risk else ""
    return (
        f"Change: {one_line(plan.change)}\nWhy: {one_line(plan.why)}\n"
        f"{anchored}Metric expected to change: {_metric(plan)}{risk}" + _small_gain(plan, basis)
    )


def plan_in_short(plan: Plan) -> str:
    """What was changed, and what should have come of it."""
    predicted = f"{predicted_text(plan.predicted_ratio)} over its parent; {_metric(plan)}"
    return f"Change: {one_line(plan.change)}\nPredicted: {predicted}"


def _metric(plan: Plan) -> str:
    """With the case and the direction in which it should change."""
    case = f" on {one_line(plan.case)}" if plan.case else ""
    moves = "" if plan.moves == "unsaid" else f", {plan.moves}"
    return f"{one_line(plan.metric)}{case}{moves}"


def _small_gain(plan: Plan, basis: Basis | None) -> str:
    """The objection to a plan whose predicted gain is too small to be measured."""
    if basis != "estimated" or not 1 / ESTIMATES < plan.predicted_ratio < ESTIMATES:
        return ""
    return (
        f"\nIts predicted {predicted_text(plan.predicted_ratio)} is within the resolution of"
        f" estimates ({ESTIMATES - 1:.0%}): even if the prediction is correct, the result will be"
        " a tie."
    )
