"""What a human sees before deciding: plan, difference, findings, and for a winner the evidence."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.text import Text

from astra_chat.agents.approval import Question
from astra_chat.agents.words import describe_build, prediction, ratio_text, speed
from astra_chat.evaluation_view import evaluation_text, evidence_lines
from astra_chat.tools.types import Evaluation, Timed

MOST_LINES = 160
CONTEXT = 2
STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_question(out: Console, asked: Question) -> None:
    """Print everything that the decision rests on. Kernel text is data: nothing in it is markup."""
    out.print()
    out.print(Text(f"Your decision: {asked.words}", "bold"))
    if asked.plan is not None:
        plan = asked.plan
        out.print(Text(f"plan: {plan.title}", "bold"))
        out.print(Text(f"{plan.change}\nwhy: {plan.why}"))
        predicted = ratio_text(plan.predicted_ratio)
        out.print(Text(f"expected: {predicted} over its parent, by {plan.metric}"))
    out.print(Text(f"{asked.author}: {asked.kernel.words}"))
    for line in difference(asked):
        out.print(Text(line, STYLES.get(line[:1], "")))
    if asked.build is not None:
        out.print(Text(f"guard, build and audit: {describe_build(asked.build)}"))
    if asked.evaluation is not None:
        out.print(evaluation_text(asked.evaluation))
        for line in [*evidence_lines(asked.evaluation), *_beside(asked, asked.evaluation)]:
            out.print(Text(line))


def _beside(asked: Question, evaluation: Evaluation) -> list[str]:
    """The figure beside that of the search, and beside what was foretold."""
    timed, lines = evaluation.outcome, []
    if not isinstance(timed, Timed):
        return []
    if asked.found is not None:
        found = f"in the search {ratio_text(asked.found)}"
        lines.append(f"confirmed: on fresh seeds {speed(timed)}, {found}")
    else:
        lines.append("not confirmed: this run evaluates no winner once more")
    if asked.plan is not None:
        lines.append(prediction(asked.plan.predicted_ratio, timed, asked.before))
    return lines


def difference(asked: Question) -> list[str]:
    """The unified difference to the parent, cut after MOST_LINES lines."""
    lines = list(
        difflib.unified_diff(
            asked.parent.splitlines(),
            asked.kernel.source.splitlines(),
            asked.parent_name,
            asked.kernel.candidate,
            lineterm="",
            n=CONTEXT,
        )
    )
    if not lines:
        return [f"the same text as {asked.parent_name}"]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more lines: edit shows all"]
    return lines
