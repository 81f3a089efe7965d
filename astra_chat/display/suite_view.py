"""The tester's cases, their score, and tuned constants as lines of text."""

from __future__ import annotations

from rich.text import Text

from astra_chat.agents.turns import TestSuite
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.tuning.tuned import Tuning

MAX_CASES = 8


def suite_lines(suite: TestSuite | CaseScores | Tuning) -> list[Text]:
    """The proposed cases, their score, or what was tried of a candidate's constants."""
    if isinstance(suite, Tuning):
        return _tuning_lines(suite)
    return _scores_lines(suite) if isinstance(suite, CaseScores) else _suite_lines(suite)


def _tuning_lines(tuning: Tuning) -> list[Text]:
    rounds = tuning.halving.rounds if tuning.halving else ()
    spent = [f"{tuning.seconds:.0f} s", *(one.text for one in rounds)]
    return [Text(f"tunes {tuning.candidate}: {tuning.words}"), Text("; ".join(spent), "dim")]


def _suite_lines(suite: TestSuite) -> list[Text]:
    lines: list[Text] = [Text(suite.words)]
    lines += [Text(f"- {test.case().label}: {test.why}") for test in suite.cases[:MAX_CASES]]
    return lines + _more(len(suite.cases))


def _scores_lines(scores: CaseScores) -> list[Text]:
    """The score, case by case, and the seeded bugs that survived."""
    lines = [Text(scores.summary())]
    lines += [_case_line(scores, score) for score in scores.cases[:MAX_CASES]]
    lines += _more(len(scores.cases))
    return lines + [
        Text(f"survived, possibly an equivalent mutant: {name}", "dim") for name in scores.survivors
    ]


def _case_line(scores: CaseScores, score: CaseScore) -> Text:
    if score.case in scores.dropped:
        return Text(f"- {score.case.label}: kills none, discarded", "red")
    new = sum(name in scores.lived for name in score.kills)
    result = f"kills {len(score.kills)}" + (f", {new} of them new" if new else "")
    return Text(f"- {score.case.label}: {score.unjudged or result}", "dim")


def _more(count: int) -> list[Text]:
    return [Text(f"- and {count - MAX_CASES} more")] if count > MAX_CASES else []
