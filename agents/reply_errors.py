"""What is wrong with a model's reply, as text that goes back to the model, and how often."""

from __future__ import annotations

from pydantic import ValidationError

from astra_chat.agents.turns import AnyReply, Plan, Source, TestSuite
from astra_chat.tools.task.folder import Task

TRIES = 3
"""Replies to one prompt: an unusable one is sent back, but the last, which counts as a pass, and of
the selector as no choice."""
STARTS = 3
"""Where a pass would end the run, as often the model is asked from the beginning; then it is an
error, which a run can be resumed after."""
MOST_CASES = 8
"""Cases of one tester's turn: each is run with every later candidate."""
MOST_PROBLEMS = 4
LEAST_RATIO = 0.01
"""Of a plan over its parent, and at most its inverse: others are slips, infinity among them."""
MOST_SOURCE = 400_000
"""Characters of a kernel: some 10,000 lines. Each later prompt may hold it."""


class UnusableReply(Exception):
    """A model's reply of which nothing can be read: cut off, refused, withheld, fenced or empty.

    Clients raise it; whoever asked sends `reason` back, after `said`, what the model is reminded of
    having said.
    """

    def __init__(self, reason: str, said: str = "(nothing that can be read)") -> None:
        super().__init__(reason)
        self.reason, self.said = reason, said


def malformed(error: ValidationError) -> str:
    """Why a reply did not fit its schema: as the kind that it says it is, else which kinds are."""
    problems = error.errors()
    other = {p["loc"][:2] for p in problems if p["loc"][2:] == ("kind",)}
    meant = [p for p in problems if p["loc"][:2] not in other]
    if other and not meant:
        kinds = [str(p["ctx"]["expected"]) for p in problems if p["loc"][2:] == ("kind",)]
        return f"it does not fit the schema: kind should be {' or '.join(kinds)}"
    words = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'reply'}: {problem['msg']}"
        for problem in meant[:MOST_PROBLEMS]
    ]
    return "it does not fit the schema: " + "; ".join(words)


def objection(answer: AnyReply, task: Task) -> str | None:
    """Why a well-formed reply cannot be used; None if it can."""
    match answer.reply:
        case TestSuite() as suite:
            return _illegal_cases(suite, task)
        case Plan(predicted_ratio=ratio) if not LEAST_RATIO <= ratio <= 1 / LEAST_RATIO:
            return f"predicted_ratio {ratio:g} is none: say one from 0.01 to 100"
        case Source(source=source):
            return unusable_source(source)
        case _:
            return None


def unusable_source(source: str) -> str | None:
    """Why a text cannot be a kernel's source; None if it can."""
    if not source.strip():
        return "the source is empty"
    if "\0" in source:
        return "the source holds a NUL character"
    if len(source) > MOST_SOURCE:
        return f"the source has {len(source):,} characters: give at most {MOST_SOURCE:,}"
    return None


def ask_again(reason: str) -> str:
    return f"Your reply could not be used: {reason}. Answer again with the whole JSON object."


def _illegal_cases(suite: TestSuite, task: Task) -> str | None:
    if len(suite.cases) > MOST_CASES:
        return f"{len(suite.cases)} cases are too many: give at most {MOST_CASES}"
    problems = []
    for number, test in enumerate(suite.cases, 1):
        names = [dim.name for dim in test.dims]
        if sorted(names) != sorted(task.dims):
            problems.append(f"case {number}: its dims are {names}, not {list(task.dims)}")
            continue
        try:
            task.require_legal(test.case())
            task.require_small(test.case())
        except ValueError as error:
            problems.append(f"case {number}: {error}")
    return "; ".join(problems[:MOST_PROBLEMS]) or None
