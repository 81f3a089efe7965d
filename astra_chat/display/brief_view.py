"""A turn in two or three lines: what a terminal shows while a run goes on. The whole text of the
roles is in --verbose and in `astra-chat replay`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rich.text import Text

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Analysis, Kernel, Plan, RunRequest, TestSuite, Turn
from astra_chat.display.turn_view import prediction_lines, turn_lines
from astra_chat.tools.descriptions import describe_build, predicted_text, speed
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.text import one_line
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Timed
from astra_chat.tools.wording import counted

SENTENCE = re.compile(r"(?<=[.;:]) ")
MOST = 150
"""Characters of a role's words."""


def brief_lines(said: Turn, before: RunState, texts: Mapping[str, str], width: int) -> list[Text]:
    """The turn in short; the parameters are those of `turn_lines`."""
    match said.payload:
        case RunRequest() as asked:
            return [Text(f"Make {asked.task} faster: {shortened(asked.summary)}")]
        case TestSuite() as suite:
            return [Text(f"{counted(len(suite.cases), 'case')}: {shortened(suite.words)}")]
        case CaseScores() as scores:
            return [Text(scores.summary())]
        case Tuning() as tuning:
            return [Text(f"tunes {tuning.candidate}: {tuning.words}")]
        case Plan() as plan:
            return [
                Text(shortened(plan.title), "bold"),
                Text(f"predicts {predicted_text(plan.predicted_ratio)} over its parent", "dim"),
            ]
        case Kernel() as kernel:
            whole = turn_lines(said, before, texts, width)
            return [Text(shortened(kernel.words)), whole[1]]
        case BuildReport() as report:
            return _build(report)
        case Evaluation() as evaluation:
            return _evaluation(evaluation, before)
        case Analysis() as analysis:
            return [
                Text(shortened(analysis.words)),
                Text(f"bottleneck: {analysis.bottleneck}; next: {analysis.next}", "dim"),
            ]
        case _:
            return turn_lines(said, before, texts, width)


def shortened(words: str) -> str:
    """The first sentence, or as much of it as there is room for."""
    line = one_line(words)
    first = SENTENCE.split(line)[0].rstrip(";:")
    if len(first) > MOST:
        return f"{first[:MOST].rsplit(' ', 1)[0]} ..."
    return first if first == line else f"{first} [...]"


def _build(report: BuildReport) -> list[Text]:
    """Registers from least to most, or the first lines of what is wrong."""
    if not isinstance(report.result, Built):
        first, *more = describe_build(report).splitlines()
        return [Text(f"{report.candidate} {first}", "red"), *map(Text, more[:2])]
    used = sorted(one.registers for one in report.result.resources)
    span = f", {used[0]} to {used[-1]} registers" if used else ""
    return [Text(f"{report.candidate} builds: {counted(len(used), 'kernel')}{span}")]


def _evaluation(evaluation: Evaluation, before: RunState) -> list[Text]:
    """Its outcome in one line, then the plan's prediction beside it."""
    timed, first = evaluation.outcome, before.baseline is None
    if not isinstance(timed, Timed):
        return turn_lines(Turn("executor", evaluation), before, {}, 0)[: 1 + evaluation.confirms]
    name = f"baseline {evaluation.candidate}" if first else evaluation.candidate
    fresh = ", confirmed on fresh seeds" if evaluation.confirms else ""
    case = max(timed.cases, key=lambda one: one.weight)
    line = f"{name}: correct on {counted(timed.correct.cases, 'case')}"
    times = f"{case.case.label}: {timed.basis} baseline {case.baseline_us:.2f} us"
    if not first:
        line += f"; {speed(timed)}{fresh}: {timed.verdict}"
        times += f", candidate {case.median_us:.2f} us, ratio {case.ratio:.2f}x"
    good = first or timed.verdict == "accepted"
    lines = [Text(line, "green" if good else "yellow"), Text(times)]
    return lines + ([] if first or evaluation.confirms else prediction_lines(timed, before))
