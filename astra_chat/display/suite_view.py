"""The tester's cases and their score, in lines."""

from __future__ import annotations

from rich.text import Text

from astra_chat.agents.turns import TestSuite
from astra_chat.tools.mutation.scores import CaseScore, CaseScores

MOST_CASES = 8


def suite_lines(said: TestSuite | CaseScores) -> list[Text]:
    """What the tester proposes, or what that turned out to be worth."""
    return _scores_lines(said) if isinstance(said, CaseScores) else _suite_lines(said)


def _suite_lines(suite: TestSuite) -> list[Text]:
    lines: list[Text] = [Text(suite.words)]
    lines += [Text(f"- {test.case().label}: {test.why}") for test in suite.cases[:MOST_CASES]]
    return lines + _more(len(suite.cases))


def _scores_lines(scores: CaseScores) -> list[Text]:
    """The score, case by case, and which seeded bugs nothing noticed."""
    lines = [Text(scores.summary())]
    lines += [_case_line(scores, score) for score in scores.cases[:MOST_CASES]]
    lines += _more(len(scores.cases))
    return lines + [Text(f"lives, perhaps no bug: {name}", "dim") for name in scores.survivors]


def _case_line(scores: CaseScores, score: CaseScore) -> Text:
    if score.case in scores.dropped:
        return Text(f"- {score.case.label}: kills none, not kept", "red")
    new = sum(name in scores.lived for name in score.kills)
    said = f"kills {len(score.kills)}" + (f", {new} of them new" if new else "")
    return Text(f"- {score.case.label}: {score.unjudged or said}", "dim")


def _more(count: int) -> list[Text]:
    return [Text(f"- and {count - MOST_CASES} more")] if count > MOST_CASES else []
