"""What is wrong with a model's reply, as text that goes back to the model, and how often."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from pydantic import ValidationError

from astra_chat.agents.turns import AnyReply, Plan, Source, TestSuite
from astra_chat.tools.extension.guard import forward_head
from astra_chat.tools.language import REGISTERED as _REGISTERS
from astra_chat.tools.language import Language, language_of, named
from astra_chat.tools.task.folder import Task

TRIES = 3
"""Replies to one prompt: unusable ones are sent back, except the last. That one counts as a pass,
or for the selector as no choice."""
STARTS = 3
"""How often a planner is asked from the beginning: its pass would end the run. After that it is an
error, after which the run can be resumed."""
MAX_CASES = 8
"""Cases of one tester's turn: each is run with every later candidate."""
MAX_PROBLEMS = 4
MIN_RATIO = 0.01
"""Least predicted ratio of a plan over its parent, and at most its inverse: anything else is a
mistake."""
_BLOCK = re.compile(r"\s*```[\w+]*[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_PYTHON = re.compile(r"^(?:def \w+\(|@\w+\.jit\b|import \w+$)", re.MULTILINE)
MAX_SOURCE = 400_000
"""Characters of a kernel: some 10,000 lines. Each later prompt may hold it."""


class UnusableReply(Exception):
    """A model's reply that cannot be parsed: cut off, refused, filtered, fenced or empty.

    Clients raise it. The caller sends `reason` back to the model, after `said`, which stands for
    the reply in the conversation.
    """

    def __init__(self, reason: str, said: str = "(no readable reply)") -> None:
        super().__init__(reason)
        self.reason, self.said = reason, said


def malformed(error: ValidationError) -> str:
    """Why a reply does not match its schema: for the kind it states, else which kinds exist."""
    problems = error.errors()
    other = {p["loc"][:2] for p in problems if p["loc"][2:] == ("kind",)}
    meant = [p for p in problems if p["loc"][:2] not in other]
    if other and not meant:
        kinds = [str(p["ctx"]["expected"]) for p in problems if p["loc"][2:] == ("kind",)]
        return f"it does not match the schema: kind should be {' or '.join(kinds)}"
    texts = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'reply'}: {problem['msg']}"
        for problem in meant[:MAX_PROBLEMS]
    ]
    return "it does not match the schema: " + "; ".join(texts)


def objection(answer: AnyReply, task: Task) -> str | None:
    """Why a well-formed reply cannot be used; None if it can."""
    match answer.reply:
        case TestSuite() as suite:
            return _illegal_cases(suite, task)
        case Plan(predicted_ratio=ratio) if not MIN_RATIO <= ratio <= 1 / MIN_RATIO:
            return f"predicted_ratio is {ratio:g}: give one from 0.01 to 100"
        case Source(source=source):
            return unusable_source(unfenced(source))
        case _:
            return None


def unusable_source(source: str) -> str | None:
    """Why a text cannot be a kernel's source; None if it can."""
    if not source.strip():
        return "the source is empty"
    if "\0" in source:
        return "the source contains a NUL character"
    if len(source) > MAX_SOURCE:
        return f"the source has {len(source):,} characters: give at most {MAX_SOURCE:,}"
    return None


def unfenced(source: str) -> str:
    """Returns a source that was given as one Markdown code block without its fence."""
    block = _BLOCK.fullmatch(source)
    return block[1] + "\n" if block else source


def unusable_language(source: str, task: Task, languages: Sequence[Language]) -> str | None:
    """Why a source cannot be a kernel in one of these languages; None if it can. What a Triton file
    may hold is the guard's question: here it has to be Python, with a launcher."""
    written, wanted = language_of(source), named(languages)
    if "torch" in languages and written == "cuda" and (found := _REGISTERS.search(source)):
        return f"a torch extension does not register its function: leave out {found[1]}"
    if written == "cuda" and "torch" in languages and "torch/extension.h" in source:
        return f"the source includes torch/extension.h, but does not define {forward_head(task)}"
    if written not in languages:
        how = ", with `import triton`" if written == "cuda" else ""
        return f"the source is not in {wanted}: this run takes only kernels in {wanted}{how}"
    if written == "cuda" and "triton" in languages and _PYTHON.search(source):
        return "the source is Python without `import triton` at the beginning of a line"
    if written in ("cuda", "torch"):
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"the source imports Triton, but is not valid Python: {error}"
    if any(isinstance(one, ast.FunctionDef) and one.name == task.entry for one in tree.body):
        return None
    return f"the source has no launcher: def {task.entry}(...)"


def ask_again(reason: str) -> str:
    return f"Your reply could not be used: {reason}. Answer again with the whole JSON object."


def _illegal_cases(suite: TestSuite, task: Task) -> str | None:
    if len(suite.cases) > MAX_CASES:
        return f"{len(suite.cases)} cases are too many: give at most {MAX_CASES}"
    problems = []
    for number, test in enumerate(suite.cases, 1):
        names = [dim.name for dim in test.dims]
        if sorted(names) != sorted(task.dims):
            problems.append(f"case {number}: its dims are {names}, not {list(task.dims)}")
            continue
        if len({one.name for one in test.scalars}) < len(test.scalars):
            problems.append(f"case {number}: a scalar has two values")
            continue
        try:
            task.require_legal(test.case())
            task.require_small(test.case())
        except ValueError as error:
            problems.append(f"case {number}: {error}")
    return "; ".join(problems[:MAX_PROBLEMS]) or None
