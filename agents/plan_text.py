"""A plan as a prompt shows it: to who carries it out, and to who explains its result."""

from __future__ import annotations

from astra_chat.agents.edits import lines_of
from astra_chat.agents.turns import Plan
from astra_chat.tools.descriptions import predicted_text
from astra_chat.tools.text import one_line
from astra_chat.tools.timing.comparison import ESTIMATES
from astra_chat.tools.types import Basis


def plan_text(plan: Plan, source: str, basis: Basis | None) -> str:
    """`source`: what the plan changes; `basis`: of the run's times."""
    lines = ", ".join(map(str, lines_of(plan.anchor, source)))
    where = f"line {lines}" if lines else "not found in the source to change"
    anchored = f"Where: {one_line(plan.anchor)} ({where})\n" if plan.anchor.strip() else ""
    risk = f"\nRisk: {one_line(plan.risk)}" if plan.risk else ""
    return (
        f"Change: {one_line(plan.change)}\nWhy: {one_line(plan.why)}\n"
        f"{anchored}Metric that should change: {_metric(plan)}{risk}" + _small_gain(plan, basis)
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
    """What a plan is told that predicts less than can be told from nothing."""
    if basis != "estimated" or not 1 / ESTIMATES < plan.predicted_ratio < ESTIMATES:
        return ""
    return (
        f"\nIts predicted {predicted_text(plan.predicted_ratio)} is within the resolution of"
        f" estimates ({ESTIMATES - 1:.0%}): if it comes true, the result is a tie."
    )
