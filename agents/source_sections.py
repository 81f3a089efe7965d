"""Sections of a prompt that show a source: to change, to test, to explain, to fix."""

from __future__ import annotations

from astra_chat.agents.idle_functions import idle_functions
from astra_chat.agents.prompt_section import ChatContext, Section
from astra_chat.agents.run_state import RunState
from astra_chat.agents.source_text import listing
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import RoleName
from astra_chat.tools.descriptions import describe_build, describe_evaluation, speed
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.language import written_in
from astra_chat.tools.report.results_text import launched
from astra_chat.tools.text import report
from astra_chat.tools.types import Refused, Timed

CONFIRMED = (
    "How the search evaluated this candidate: {before}\nWhy the confirmation, on newly drawn cases,"
    " rejected it: {now}\n"
    "The candidate is the fastest of the run: keep what makes it fast, and {fix}"
)
"""What the fixer is told of a winner that was refused."""
FIX_CASE = "fix the error that the case shows."
FIX_REFUSED = "change what the refusal names."
ALWAYS = " From now on, every candidate has to pass this case."


def tested(context: ChatContext, state: RunState) -> Section:
    """The best so far, whose branches a tester's cases have to reach."""
    best = state.best[0].candidate if state.best else ""
    name = f"The best candidate so far: {best}" if best in state.sources else "The baseline"
    return Section(name, listing(state.sources.get(best, context.baseline)))


def parent(context: ChatContext, state: RunState) -> Section:
    source = _parent_now(context, state)
    return Section(_parent_title(state), listing(source, comments=_users_file(context)))


def parent_that_runs(context: ChatContext, state: RunState) -> Section:
    """The source to change without functions that no timed case runs: no plan for those speeds
    anything up."""
    return Section(_parent_title(state), _running(_parent_now(context, state), state.parent))


def last_source(context: ChatContext, state: RunState) -> Section | None:
    last = state.evaluated
    if last is None or last.candidate not in state.sources:
        return None
    return Section(
        f"The last candidate: {last.candidate}", _running(state.sources[last.candidate], last)
    )


def failing(context: ChatContext, state: RunState) -> Section | None:
    attempt = state.to_fix
    if attempt is None:
        return None
    result = describe_build(attempt.build) if attempt.build else "not built yet"
    if attempt.evaluation:
        result = describe_evaluation(attempt.evaluation)
    refused = attempt.refused
    if refused is None:
        told = f"The judge's report: {report(result)}"
    else:
        fix = FIX_REFUSED if isinstance(refused.outcome, Refused) else FIX_CASE
        fix += ALWAYS * bool(refused.check and refused.check.failed)
        now = report(describe_evaluation(refused))
        told = CONFIRMED.format(before=report(result), now=now, fix=fix)
    shown = listing(attempt.kernel.source, comments=_users_file(context))
    return Section("The candidate to fix", f"{shown}\n{told}")


def _users_file(context: ChatContext) -> bool:
    """Whether the source goes back into the file that it came from, comments and all."""
    return context.task.binding is not None


def source_to_edit(role: RoleName, context: ChatContext, state: RunState) -> str:
    """The source that edits apply to: the candidate to fix, or what the plan changes."""
    if acts_as(role, state) == "fixer" and state.to_fix:
        return state.to_fix.kernel.source
    return parent_source(context, state)


def parent_source(context: ChatContext, state: RunState) -> str:
    """The source that the plan of the current round changes."""
    parent = state.round.parent if state.round else None
    source = state.sources.get(parent.candidate) if parent else None
    return context.baseline if source is None else source


def _parent_now(context: ChatContext, state: RunState) -> str:
    parent = state.parent
    return state.sources.get(parent.candidate, context.baseline) if parent else context.baseline


def _parent_title(state: RunState) -> str:
    parent = state.parent
    if parent is None or parent.candidate not in state.sources:
        return "The source to change: the baseline"
    best, outcome = state.best, parent.outcome
    is_best = best is not None and best[0].candidate == parent.candidate
    name = "the best candidate so far" if is_best else "a candidate"
    speedup = f", {speed(outcome)}" if isinstance(outcome, Timed) else ""
    language = written_in(state.sources[parent.candidate])
    return f"The source to change: {name}, {parent.candidate}{language}{speedup}"


def _running(source: str, evaluation: Evaluation | None) -> str:
    names = launched(evaluation) if evaluation else set()
    return listing(source, idle_functions(source, names))
