"""The prompt of a turn: a pure function of the state, and bounded.

The stable part (task, rules, contract) comes first, then the source, so that model servers can
cache them. What changes comes last, and the position in the chat at the very end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_chat.agents.constants import PLAN_PROMPT, PROMPT, TRITON_PROMPT, without_effect
from astra_chat.agents.evaluations import profile_of
from astra_chat.agents.history_text import plan_in_short, plan_text, prediction_line, round_lines
from astra_chat.agents.memory_cards import matching
from astra_chat.agents.plan_predictions import predictions, score
from astra_chat.agents.position import position_line, position_of
from astra_chat.agents.prompt_section import ChatContext as ChatContext
from astra_chat.agents.prompt_section import Section
from astra_chat.agents.run_state import RunState
from astra_chat.agents.search_sections import (
    algorithms,
    kernels_of_plan,
    prices,
    ranks,
    scoring,
    second_parent,
    taxes,
)
from astra_chat.agents.source_sections import (
    failing,
    last_source,
    parent,
    parent_source,
    parent_that_runs,
    tested,
)
from astra_chat.agents.source_sections import source_to_edit as source_to_edit
from astra_chat.agents.standing import rounds_without_gain, standings
from astra_chat.agents.task_text import (
    accept_text,
    bullets,
    comparison_text,
    headers_text,
    inputs_text,
    launcher_text,
    task_text,
)
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import RoleName
from astra_chat.tools.descriptions import speed
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.mutation.scores import CaseScore
from astra_chat.tools.report.results_text import cases_list, judge_report, times_text
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Basis, Case, Timed
from astra_chat.tools.wording import counted

MAX_CHARACTERS = 64_000
"""A prompt stays below this unless a single source is longer by itself."""
LOG_ROUNDS = 12
PREDICTION_ROUNDS = 2


def turn_prompt(role: RoleName, context: ChatContext, state: RunState) -> str:
    """The user message of this turn; the system message is the role's standing instructions."""
    acting = acts_as(role, state)
    makers = SECTIONS[acting]
    if role == "single":
        makers = (*makers, *SINGLE_EXTRA.get(acting, ()))
    sections = [s for make in makers if (s := make(context, state)) is not None]
    last = position_line(position_of(role, state))
    while len(text := "\n".join([*map(str, sections), last])) > MAX_CHARACTERS:
        first = max(sections, key=lambda section: section.drop_rank)
        if first.drop_rank == 0:
            break
        sections.remove(first)
    return text


def _single_reply(context: ChatContext, state: RunState) -> Section:
    """Which kind of reply the single agent has to give now."""
    return Section("Answer now with", SINGLE_REPLIES.get(acts_as("single", state), "A pass."))


def _task(context: ChatContext, state: RunState) -> Section:
    return Section(f"Task {context.task.name}", task_text(context.task, context.device))


def _rules(context: ChatContext, state: RunState) -> Section | None:
    basis = _basis(state)
    if basis is None:
        return None
    text = comparison_text(basis, memory=context.task.memory is not None)
    return Section("How candidates are compared", text)


def _cases(context: ChatContext, state: RunState) -> Section | None:
    """What the numbers of timed cases stand for: the same for all candidates."""
    outcome = state.baseline.outcome if state.baseline else None
    if not isinstance(outcome, Timed):
        return None
    return Section("Timed cases, by their numbers in the tables", cases_list(outcome), 1)


def _basis(state: RunState) -> Basis | None:
    outcome = state.baseline.outcome if state.baseline else None
    return outcome.basis if isinstance(outcome, Timed) else None


def _contract(context: ChatContext, state: RunState) -> Section:
    return Section("The launcher to export", launcher_text(context.task, state.limits.languages))


def _inputs(context: ChatContext, state: RunState) -> Section | None:
    text = inputs_text(context.task)
    return Section("How the inputs of a case are drawn", text, 4) if text else None


def _accept(context: ChatContext, state: RunState) -> Section | None:
    text = accept_text(context.task)
    title = (
        "What `accept` accepts: it returns None for a correct result, and otherwise a text that"
        " says what is wrong"
    )
    return Section(title, text, 4) if text else None


def _headers(context: ChatContext, state: RunState) -> Section | None:
    text = headers_text(context.task)
    return Section("Headers of the task that a candidate may include", text, 4) if text else None


def _tests(context: ChatContext, state: RunState) -> Section | None:
    dims = " x ".join(context.task.dims)
    lines = [*_by_kind(context.task.check), *(f"testers': {c.label}" for c in state.extra_cases)]
    lines += [
        f"drawn later; an earlier candidate failed on it: {c.label}" for c in state.failed_cases
    ]
    return Section(f"Cases that every candidate must pass, given as {dims}", bullets(lines), 3)


def _by_kind(cases: Sequence[Case]) -> list[str]:
    """Cases that differ in their dims alone on one line."""
    kinds: dict[str, list[str]] = {}
    for case in cases:
        dims, _, kind = case.label.partition(" ")
        kinds.setdefault(kind, []).append(dims)
    return [f"{kind}: {', '.join(dims)}" for kind, dims in kinds.items()]


def _score(context: ChatContext, state: RunState) -> Section | None:
    scores = state.scores
    if scores is None:
        return None
    lines = [_case_score(one, kept=one.case not in scores.dropped) for one in scores.cases]
    lines += [f"survived: {name}" for name in scores.survivors]
    if scores.own:
        lines.append(f"already detected by the task's own cases: {'; '.join(scores.own)}")
    return Section(
        "Seeded bugs that your last cases detected", f"{scores.summary()}\n{bullets(lines)}"
    )


def _case_score(score: CaseScore, *, kept: bool) -> str:
    if not kept:
        return f"discarded, detects none: {score.case.named}"
    what = score.unjudged or f"detects {len(score.kills)}"
    return f"kept, {one_line(what)}: {score.case.named}"


def _progress(context: ChatContext, state: RunState) -> Section:
    """For the planner: the round to come, the budget, and what is kept."""
    number, rounds = len(state.rounds) + 1, state.limits.rounds
    return _state(context, state, f"round {number} of {rounds}" + ", the last" * (number >= rounds))


def _progress_after(context: ChatContext, state: RunState) -> Section:
    """For the profiler, after a round's candidates: the round, the budget, and what is kept."""
    number, rounds = len(state.rounds), state.limits.rounds
    last = ", the last: no plan follows, so your analysis is only for the report"
    return _state(context, state, f"round {number} of {rounds}" + last * (number >= rounds))


def _state(context: ChatContext, state: RunState, where: str) -> Section:
    limits, lines = state.limits, [f"{where}; {counted(state.evaluations, 'evaluation')} so far"]
    if left := context.budget_left():
        lines.append(f"budget left: {left}")
    if limits.patience is not None:
        gone = rounds_without_gain(state.rounds)
        lines.append(
            f"{counted(gone, 'round')} in a row without a gain; the run ends after "
            f"{limits.patience}"
        )
    if state.best is None:
        lines.append("so far, no candidate has been accepted as faster than the baseline")
    else:
        lines.append(f"best so far: {state.best[0].candidate}, {speed(state.best[1])}")
    return Section("State of the run", bullets(lines))


def _standing(context: ChatContext, state: RunState) -> Section | None:
    """How the last candidate stands, for who is not shown the earlier rounds."""
    stands = list(standings(state.rounds))
    return Section("Result of the last candidate", stands[-1].text) if stands else None


def _tuned(context: ChatContext, state: RunState) -> Section | None:
    """What came of the constants that the round's candidate left open."""
    tuning = state.round.tuning if state.round else None
    return Section("Constants left open so far", tuning.words, 2) if tuning else None


def _log(context: ChatContext, state: RunState) -> Section | None:
    if not state.rounds:
        return None
    lines = round_lines(state.rounds)[-LOG_ROUNDS:]
    if len(state.rounds) > LOG_ROUNDS:
        lines.insert(0, f"({len(state.rounds) - LOG_ROUNDS} earlier rounds omitted)")
    return Section("Earlier rounds", bullets(lines), 1)


def _plan(context: ChatContext, state: RunState) -> Section | None:
    if state.round is None:
        return None
    plan, source = state.round.plan, parent_source(context, state)
    return Section(f"The plan: {one_line(plan.title)}", plan_text(plan, source, _basis(state)))


def _open_constants(context: ChatContext, state: RunState) -> Section | None:
    if not state.limits.tune:
        return None
    triton = TRITON_PROMPT if "triton" in state.limits.languages else ""
    text = " ".join(filter(None, (PROMPT, triton, without_effect(state))))
    return Section("Constants that you leave open", text)


def _open_in_plan(context: ChatContext, state: RunState) -> Section | None:
    points = state.limits.tune
    title = "Constants that a plan may leave open"
    return Section(title, PLAN_PROMPT.format(points=points)) if points else None


def _plan_in_short(context: ChatContext, state: RunState) -> Section | None:
    if state.served is None:
        return None
    plan = state.served.plan
    return Section(f"The plan: {one_line(plan.title)}", plan_in_short(plan))


def _predictions(context: ChatContext, state: RunState) -> Section | None:
    judged = predictions(state.rounds)
    if not judged:
        return None
    lines = [score(judged).text, *(prediction_line(one) for one in judged[-PREDICTION_ROUNDS:])]
    return Section("Predictions of plans and their results", bullets(lines), 2)


def _profile(context: ChatContext, state: RunState) -> Section | None:
    return _report("Profile of the source to change", state.parent) if state.parent else None


def _parent_cases(context: ChatContext, state: RunState) -> Section | None:
    parent = state.parent
    if parent is None or not isinstance(parent.outcome, Timed):
        return None
    return Section(
        "Timed cases of the source to change", times_text(parent, parent.outcome, short=True), 2
    )


def _memory(context: ChatContext, state: RunState) -> Section | None:
    """After the planner's own first ideas."""
    cards = state.request.memory if state.request else ()
    if not cards or not state.rounds:
        return None
    profile = profile_of(state.parent)
    found = matching(cards, profile.bottleneck if profile else None, _basis(state))
    lines = [MEMORY, *(card.text for card in found)]
    return Section("What other runs found", bullets(lines), 5)


def _analysis(context: ChatContext, state: RunState) -> Section | None:
    """The profiler's last analysis, and which source it is about."""
    analysis, about, parent = state.analysis, state.analysed, state.parent
    if analysis is None:
        return None
    same = about is not None and parent is not None and about.candidate == parent.candidate
    subject = "the source to change" if same else "the last candidate, not on the source to change"
    return Section(
        f"The profiler on {subject}",
        f"Analysis: {one_line(analysis.words)}\nBottleneck: {one_line(analysis.bottleneck)}",
        2,
    )


def _other_report(context: ChatContext, state: RunState) -> Section | None:
    """The judge's report on the last candidate, unless that is the source to change."""
    last, parent = state.evaluated, state.parent
    same = last is not None and parent is not None and last.candidate == parent.candidate
    return None if same else _last_report(context, state)


def _last_report(context: ChatContext, state: RunState) -> Section | None:
    return (
        _report("The judge's report on the last candidate", state.evaluated)
        if state.evaluated
        else None
    )


def _report(title: str, evaluation: Evaluation) -> Section:
    return Section(title, judge_report(evaluation, listed=True))


MEMORY = (
    "This is evidence from other tasks and kernels, not a set of rules: what helped there may "
    "hurt here, and what failed there may work here"
)
SINGLE_REPLIES = {
    "planner": "A plan.",
    "coder": "A kernel: the whole source of the candidate that your plan asks for.",
    "fixer": "A kernel: the whole source of the candidate, corrected.",
}
SINGLE_EXTRA: dict[str, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "planner": (_other_report, _single_reply),
    "coder": (_single_reply,),
    "fixer": (_single_reply,),
}
"""Sections that a single agent gets in addition to those of the role it acts as."""

SECTIONS: dict[RoleName, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "tester": (_task, ranks, _inputs, scoring, tested, _tests, _score, _analysis),
    "planner": (
        _task, ranks, _contract, _cases, _inputs, _accept, _rules, taxes, prices,
        parent_that_runs, _progress, _open_in_plan, _log, _predictions, _profile, _analysis,
        algorithms, _memory,
    ),
    "coder": (
        _task, ranks, _contract, _cases, _inputs, _accept, _headers, parent, _parent_cases, _plan,
        second_parent, _open_constants, kernels_of_plan,
    ),
    "fixer": (_task, ranks, _contract, _accept, _headers, _plan_in_short, failing),
    "profiler": (
        _task, ranks, _cases, _rules, taxes, last_source, _progress_after, _plan_in_short, _tuned,
        _standing, _last_report,
    ),
    "single": (_task, parent),
}  # fmt: skip
