"""What a human sees before deciding: plan, difference, findings, and for a winner the evidence."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.text import Text

from astra_chat.agents.approval import Question
from astra_chat.agents.turns import Plan
from astra_chat.display.evaluation_view import evaluation_text, evidence_lines
from astra_chat.tools.descriptions import describe_build, prediction, ratio_text, speed
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.types import Timed

MAX_LINES = 160
"""Lines of a difference that a terminal shows at most, until the whole of it is asked for."""
CONTEXT = 2
STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_question(out: Console, asked: Question, most: int | None = None) -> None:
    """Print everything that the decision rests on; of the difference `most` lines, None for all.

    Kernel text is data: nothing in it is markup.
    """
    out.print()
    out.print(Text(f"Your decision: {asked.text}", "bold"))
    if asked.plan is not None:
        out.print(Text("\n").join(_plan_lines(asked.plan)))
    out.print(Text(f"{asked.author}: {asked.kernel.words}"))
    show_difference(out, asked, most)
    if asked.build is not None:
        out.print(Text(_before_it_runs(asked.build)))
    if asked.evaluation is not None:
        out.print(evaluation_text(asked.evaluation))
        for line in [*evidence_lines(asked.evaluation), *_beside(asked, asked.evaluation)]:
            out.print(Text(line))


def show_difference(out: Console, asked: Question, most: int | None = None) -> None:
    """Print what the candidate changes in its parent; `most` lines of it, None for all."""
    lines = difference(asked)
    for line in lines[:most]:
        out.print(Text(line, STYLES.get(line[:1], "")))
    if most is not None and len(lines) > most:
        out.print(
            Text(f"... {len(lines) - most:,} more lines in the diff: press d to show them all")
        )


def _plan_lines(plan: Plan) -> list[Text]:
    moves = "" if plan.moves == "unsaid" else f" {plan.moves}"
    expected = f"expected: {ratio_text(plan.predicted_ratio)} over its parent"
    lines = [
        Text(f"plan: {plan.title}", "bold"),
        Text(f"{plan.change}\nwhy: {plan.why}\nwhere: {plan.anchor}"),
        Text(f"{expected}; {plan.metric}{moves}"),
    ]
    return [*lines, Text(f"risk: {plan.risk}")] if plan.risk else lines


def _before_it_runs(report: BuildReport) -> str:
    """What the gates before a run said of a candidate that passed them."""
    passed = [step.name for step in report.steps if step.name in ("guard", "audit")]
    found = f"{' and '.join(passed)}: no violations; " if passed else ""
    return f"{found}build: {describe_build(report).removeprefix('builds: ')}"


def _beside(asked: Question, evaluation: Evaluation) -> list[str]:
    """The figure beside that of the search, and beside the prediction."""
    timed, lines = evaluation.outcome, []
    if not isinstance(timed, Timed):
        return []
    if asked.search_ratio is not None:
        found = f"in the search {ratio_text(asked.search_ratio)}"
        lines.append(f"confirmed: on fresh seeds {speed(timed)}, {found}")
    else:
        lines.append("not confirmed: this run does not evaluate its winner a second time")
    if asked.plan is not None:
        lines.append(prediction(asked.plan.predicted_ratio, timed, asked.before))
    return lines


def difference(asked: Question) -> list[str]:
    """The unified difference to the parent."""
    lines = difflib.unified_diff(
        asked.parent.splitlines(),
        asked.kernel.source.splitlines(),
        asked.parent_name,
        asked.kernel.candidate,
        lineterm="",
        n=CONTEXT,
    )
    return list(lines) or [f"identical to {asked.parent_name}"]
